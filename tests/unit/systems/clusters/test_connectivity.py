"""The events about a kubeconfig: written once, and again only when the result changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fournos.api.fournoscluster import FournosClusterSpec
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.decision import Decision, Facts
from fournos.systems.clusters.build import Connect
from fournos.systems.clusters.decide import decide
from fournos.systems.clusters.status import Observed
from tests.unit.systems.clusters.actors import HUB, SECRETS, SETTINGS, Verdict

START = datetime(2030, 1, 1, tzinfo=UTC)
SECRET: dict[str, Any] = {
    "metadata": {"name": "kubeconfig-c1", "namespace": SECRETS, "uid": "s", "resourceVersion": "7"},
    "hasKubeconfig": True,
}
SPEC = {"kubeconfigSecret": "kubeconfig-c1"}
SEEN = Observed(
    Key(HUB, "c1"),
    {
        "metadata": {
            "name": "c1",
            "namespace": HUB,
            "uid": "u",
            "resourceVersion": "1",
            "finalizers": ["fournos.dev/cluster"],
        },
        "spec": SPEC,
    },
    FournosClusterSpec.model_validate(SPEC),
    secret=SECRET,
    connected="s/7",
    nodes=(),
)
SOON = START + timedelta(days=3)
REVOKED = Verdict(False, reason="Unauthorized", error="it refused the credentials")


def passes(seen: Observed, times: int = 1) -> tuple[Observed, Decision]:
    """The cluster with the status that so many passes have written, and the last pass."""
    for _ in range(times):
        decision = decide(seen, Facts(), START, settings=SETTINGS)
        assert isinstance(decision, Decision)
        seen = replace(seen, cluster={**seen.cluster, "status": decision.status})
    return seen, decision


def connection_of(seen: Observed) -> tuple[str, str]:
    found = condition(seen.cluster, "KubeconfigValid") or {}
    return found["status"], found["reason"]


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        (Verdict(True), ("True", "Accepted")),
        (Verdict(True, certificate_expires=SOON), ("True", "ExpiresSoon")),
        (Verdict(True, certificate_expires=START + timedelta(days=99)), ("True", "Accepted")),
        (Verdict(False, reason="Timeout", error="no answer"), ("True", "Accepted")),
        (REVOKED, ("False", "Unauthorized")),
    ],
)
def test_each_event_is_recorded_once(probe: Verdict, expected: tuple[str, str]) -> None:
    seen, first = passes(replace(SEEN, probe=probe))
    assert connection_of(seen) == expected
    assert [note.reason for note in first.events].count(expected[1]) >= 1
    seen, second = passes(seen)
    assert connection_of(seen) == expected and second.events == ()


def test_after_a_restart_what_was_found_stands_until_the_next_probe_and_it_is_probed() -> None:
    for probe in (REVOKED, Verdict(True, certificate_expires=SOON)):
        before, _ = passes(replace(SEEN, probe=probe))
        after, decision = passes(replace(before, connected=None, probe=None))
        assert connection_of(after) == connection_of(before)
        assert any(isinstance(step, Connect) for step in decision.steps)


def test_another_kubeconfig_is_judged_anew() -> None:
    before, _ = passes(replace(SEEN, probe=REVOKED))
    secret = {**SECRET, "metadata": {**SECRET["metadata"], "resourceVersion": "8"}}
    after, _ = passes(replace(before, secret=secret))
    assert is_true(after.cluster, "KubeconfigValid")
