"""What the benchmark derives from what it reads."""

from __future__ import annotations

from collections import Counter

from bench.lifecycle import _requests
from bench.machine import Load
from bench.operator import Usage, samples
from bench.report import Target


def usage(**requests: int) -> Usage:
    keys = {name: (name.split("_")[0], "create", "workloads.kueue.x-k8s.io") for name in requests}
    return Usage(0.0, 0, 0, Counter({keys[name]: n for name, n in requests.items()}), 0)


def test_requests_of_other_clients_are_the_rest() -> None:
    served = Counter({("POST", "workloads"): 30, ("POST", "fournosjobs"): 10, ("PUT", "localqueues"): 5})
    sent = Counter({("create", "fournosjobs.fournos.dev"): 10})
    per_job = _requests(sent, served, usage(local=0), usage(local=20), 10)
    assert per_job == {"operator": 2.0, "events": 0.0, "kueue and others": 1.5, "all": 3.5}


def test_idle_calls_are_all_but_lease_and_watches() -> None:
    counted = Counter(
        {
            ("lease", "patch", "leases.coordination.k8s.io"): 9,
            ("local", "watch", "fournosjobs.fournos.dev"): 2,
            ("local", "get", "secrets"): 3,
            ("events", "create", "events.events.k8s.io"): 1,
        }
    )
    assert Usage(0.0, 0, 0, counted, 0).calls() == 4


def test_others_are_who_is_not_measured() -> None:
    before = Load({"operator": 1.0}, busy=10.0, capacity=40.0)
    after = Load({"operator": 3.0}, busy=16.0, capacity=48.0)
    assert after.since(before).others == 0.5


def test_targets_know_their_direction() -> None:
    most, least = Target("time", "s", 0.2), Target("rate", "/s", 12, at_least=True)
    assert most.met(0.2) and not most.met(0.21)
    assert least.met(12) and not least.met(11.9)


def test_samples_carry_labels() -> None:
    text = '# TYPE a counter\na_total{b="c"} 2.0\n'
    assert samples(text) == [("a_total", {"b": "c"}, 2.0)]
