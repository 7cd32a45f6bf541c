"""Queues from live objects: who waits where, what is held, and how long comparable runs took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from fournos.api.fournosjob import FournosJobSpec
from fournos.engine.kube.resource import Key
from fournos.history.estimates.durations import Past
from fournos.history.estimates.live import (
    Candidate,
    CannotEstimateError,
    Objects,
    candidate,
    snapshot,
    works,
    works_of,
)
from fournos.history.estimates.queue import RunningJob
from fournos.history.estimates.simulate import estimate, would_start
from tests.unit.history.estimates.live_objects import (
    FLAVORS,
    GPUS,
    NOW,
    SLOTS,
    cluster_queue,
    job,
    past,
    spec,
    workload,
    world,
)

(WORK,) = works_of(spec(cluster="c-1"), {}, ["c-1"], {})
DRAIN = {"nodeTaints": [{"key": "fournos.dev/unavailable", "value": "drain"}]}
DRAINED = [{"metadata": one["metadata"], "spec": {**one["spec"], **DRAIN}} for one in FLAVORS]
HOUR: Mapping[str, Sequence[Past]] = {"uid-perf": past(WORK)}


def pair(name: str, *, namespace: str = "perf", on: str = "", **fields: Any) -> tuple[Any, Any]:
    kept = {key: fields.pop(key) for key in ("age", "priority", "kind") if key in fields}
    made = job(name, namespace=namespace, status={"cluster": on} if on else None, **fields)
    return made, workload(made, on=on, **kept)


def test_what_waits_in_its_order_and_what_holds_quota() -> None:
    objects = world(
        pair("young", age=10), pair("old", age=99), pair("first", age=5, priority=7), pair("r", on="c-1")
    )
    found = snapshot(objects, HOUR, NOW)
    assert [(one.name, one.position) for one in found.waiting] == [("first", 1), ("old", 2), ("young", 3)]
    assert [(one.name, one.position, one.uid) for one in found.running] == [("r", 0, "uid-r")]
    (running,) = found.queues["all"].running
    assert (running.flavor, running.holds, running.elapsed) == ("c-1", {SLOTS: 1.0, GPUS: 4.0}, 60.0)
    assert running.durations and running.durations.basis == "5 runs of the same fingerprint"


def test_the_estimate_of_a_live_job() -> None:
    objects = world(pair("waits", cluster="c-1"), pair("a", on="c-1", age=600), pair("b", on="c-1", age=1200))
    found = snapshot(objects, HOUR, NOW)
    place = found.place("perf", "waits")
    assert place
    result = estimate(found.queues["all"], place.workload, NOW)
    assert result.start and result.start.median == NOW + timedelta(minutes=40)
    assert result.end and result.end.median == NOW + timedelta(minutes=100)


def test_a_job_that_may_go_to_any_cluster_has_the_runs_of_each() -> None:
    assert works_of(spec(), {}, ["c-1", "c-2"], {}) == (WORK,), "nothing says that they differ"
    other = {"metadata": {"name": "c-2", "labels": {"fournos.dev/cluster-class": "big"}}}
    one, two = works_of(spec(), {}, ["c-1", "c-2"], {"c-2": other})
    assert one == WORK
    assert one.fingerprint != two.fingerprint
    objects = world(pair("waits"), clusters={"c-2": other})
    assert set(works(objects)) == {("uid-perf", one), ("uid-perf", two)}
    (waiting,) = snapshot(objects, {"uid-perf": past(two, 60)}, NOW).queues["all"].waiting
    assert waiting.durations and waiting.durations.basis == "5 runs of the same fingerprint"
    label = {"metadata": {"name": "c-1", "labels": {"fournos.dev/cluster-class": "big"}}}
    same = {name: {**label, "metadata": {**label["metadata"], "name": name}} for name in ("c-1", "c-2")}
    assert len(works_of(spec(), {}, ["c-1", "c-2"], same)) == 1


def test_a_lock_has_the_length_of_no_run() -> None:
    lock, waiting = pair("lock", on="c-1", lockOnly=True), pair("w", cluster="c-1")
    (held,) = snapshot(world(lock, waiting), HOUR, NOW).queues["all"].running
    assert held.durations is None
    assert not works_of(spec(cluster="c-1", lockOnly=True), {}, ["c-1"], {})


def test_runs_of_other_namespaces_do_not_count() -> None:
    objects = world(pair("mine"), pair("theirs", namespace="other"))
    found = {one.key.name: one.durations for one in snapshot(objects, HOUR, NOW).queues["all"].waiting}
    assert found["wl-mine"] is not None
    assert found["wl-theirs"] is None


def test_quota_of_unreadable_holders_counts_as_held() -> None:
    queue = cluster_queue(reserved={"c-1": 100, "c-2": 1})
    found = snapshot(world(pair("r", on="c-2"), queue=queue), HOUR, NOW).queues["all"]
    unknown = [one for one in found.running if one.durations is None]
    assert unknown == [RunningJob(Key("", ""), "c-1", {SLOTS: 100.0}, 0.0)]
    assert found.free()["c-1"][SLOTS] == 0


@pytest.mark.parametrize(
    ("queue", "flavors", "reason"),
    [
        (cluster_queue(stopPolicy="Hold"), FLAVORS, "its queue is stopped"),
        (
            cluster_queue(),
            DRAINED,
            "its cluster takes no jobs",
        ),
        (cluster_queue(resourceGroups=[]), FLAVORS, "no quota exists for what it asks for"),
    ],
)
def test_why_there_is_no_estimate(queue: Any, flavors: Any, reason: str) -> None:
    found = snapshot(world(pair("x"), queue=queue, flavors=flavors), HOUR, NOW)
    (place,) = found.waiting
    assert estimate(found.queues["all"], place.workload, NOW).reason == reason


def test_an_inactive_queue_is_stopped_and_a_strict_one_strict() -> None:
    inactive = cluster_queue(queueingStrategy="StrictFIFO")
    inactive["status"]["conditions"] = [{"type": "Active", "status": "False"}]
    found = snapshot(world(queue=inactive), {}, NOW).queues["all"]
    assert (found.stopped, found.strict) == (True, True)
    plain = snapshot(world(), {}, NOW).queues["all"]
    assert (plain.stopped, plain.strict) == (False, False)


def test_a_name_is_looked_for_in_its_namespace_and_jobs_come_first() -> None:
    wrapper = pair("same", kind="AppWrapper")
    wrapper[0]["metadata"]["uid"] = wrapper[1]["metadata"]["ownerReferences"][0]["uid"] = "uid-wrapper"
    wrapper[1]["metadata"]["name"] = "wl-wrapper"
    found = snapshot(world(wrapper, pair("same"), pair("r", on="c-1")), HOUR, NOW)
    place = found.place("perf", "same")
    assert place and place.uid == "uid-same"
    by_uid = found.place("perf", "uid-wrapper")
    assert by_uid and by_uid.kind == "AppWrapper"
    assert found.place("perf", "r") and not found.place("other", "same") and not found.place("perf", "no")


def ask(objects: Objects, queue: str = "fournos-queue", **fields: Any) -> Candidate:
    wanted = FournosJobSpec.model_validate(spec(**fields))
    return candidate(objects, HOUR, wanted, namespace="perf", local_queue=queue, gpu_prefix="fournos/gpu-")


def test_a_job_that_is_not_submitted_yet() -> None:
    objects = world(pair("one", cluster="c-1"), pair("r", on="c-1"))
    found = ask(objects, cluster="c-1")
    assert (found.cluster_queue, found.place) == ("all", 1)
    assert found.job.flavors == {"c-1": {SLOTS: 1.0, GPUS: 4.0}}
    queue = snapshot(objects, HOUR, NOW).queues["all"]
    assert not would_start(queue, found.job, NOW, place=found.place).now
    anywhere = ask(objects)
    assert would_start(queue, anywhere.job, NOW, place=anywhere.place).flavor == "c-2"
    urgent = ask(objects, cluster="c-1", priority="urgent")
    assert urgent.place == 0
    assert would_start(queue, urgent.job, NOW, place=urgent.place).flavor == "c-1"
    whole = ask(objects, cluster="c-2", exclusive=True, hardware=None)
    assert whole.job.flavors == {"c-2": {SLOTS: 100.0}}, "it asks for the cluster, whatever its GPUs are"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"hardware": None}, "spec.hardware is not set"),
        ({"priority": "huge"}, "WorkloadPriorityClass 'huge' not found"),
        ({"queue": "none"}, "namespace perf has no LocalQueue none that admits jobs"),
    ],
)
def test_what_cannot_be_estimated(fields: Any, problem: str) -> None:
    with pytest.raises(CannotEstimateError, match=problem):
        ask(world(), **fields)
