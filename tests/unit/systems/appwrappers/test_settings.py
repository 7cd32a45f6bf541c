"""Each variable of the AppWrapper operator changes what is made of an AppWrapper, or how long it is given."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fournos.engine.kube.resource import NODE, POD, Key
from fournos.engine.runtime.decision import Facts, NeededFacts, User, UserAccess, attempt
from fournos.engine.runtime.webhook.review import Request
from fournos.systems.appwrappers.admission import review
from fournos.systems.appwrappers.build import component
from fournos.systems.appwrappers.health import LABEL, evicting
from fournos.systems.appwrappers.kinds import infer
from fournos.systems.appwrappers.observe import watches
from fournos.systems.appwrappers.settings import AppWrapperSettings, tolerance
from tests.unit.systems.appwrappers.actors import NS, pod_template, wrapper

PREFIX = "FOURNOS_APPWRAPPER_"


@pytest.mark.parametrize(
    ("variable", "value", "attribute", "seen"),
    [
        ("ADMISSION_GRACE", "7s", "admission", timedelta(seconds=7)),
        ("WARMUP_GRACE", "7m", "warmup", timedelta(minutes=7)),
        ("FAILURE_GRACE", "7s", "failure", timedelta(seconds=7)),
        ("RETRY_PAUSE", "7s", "retry_pause", timedelta(seconds=7)),
        ("RETRY_LIMIT", "7", "retry_limit", 7),
        ("FORCEFUL_DELETION_GRACE", "7s", "forceful_deletion", timedelta(seconds=7)),
        ("GRACE_MAXIMUM", "2m", "warmup", timedelta(minutes=2)),
        ("SUCCESS_TTL", "7h", "success_ttl", timedelta(hours=7)),
    ],
)
def test_how_long_and_how_often(
    variable: str, value: str, attribute: str, seen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert getattr(tolerance({}, AppWrapperSettings()), attribute) != seen
    monkeypatch.setenv(PREFIX + variable, value)
    assert getattr(tolerance({}, AppWrapperSettings()), attribute) == seen


def made() -> Any:
    """The pod of an AppWrapper, which uses a GPU."""
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    spec = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    wrapper = {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": "w", "namespace": "n", "uid": "u"},
        "spec": {"components": [{"template": template}]},
    }
    return component(wrapper, 0, infer(template), AppWrapperSettings())["spec"]


def weight(spec: Any) -> int:
    (preferred,) = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    return int(preferred["weight"])


def test_what_pods_get(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "schedulerName" not in made()
    assert weight(made()) == 50
    monkeypatch.setenv(f"{PREFIX}SCHEDULER_NAME", "mine")
    monkeypatch.setenv(f"{PREFIX}PREFER_NO_SCHEDULE_WEIGHT", "7")
    assert made()["schedulerName"] == "mine"
    assert weight(made()) == 7
    monkeypatch.setenv(f"{PREFIX}INJECT_ANTI_AFFINITIES", "false")
    assert "affinity" not in made()


def test_nodes_and_the_resources_that_autopilot_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    node = {"metadata": {"name": "n", "labels": {LABEL: "EVICT"}}}
    assert evicting(node, AppWrapperSettings()) == {"nvidia.com/gpu"}
    assert NODE in {one.resource for one in watches(AppWrapperSettings())}
    monkeypatch.setenv(f"{PREFIX}AUTOPILOT_RESOURCES", '["amd.com/gpu"]')
    monkeypatch.setenv(f"{PREFIX}MONITOR_NODES", "false")
    assert evicting(node, AppWrapperSettings()) == {"amd.com/gpu"}
    assert "affinity" not in made(), "it uses none of them"
    assert NODE not in {one.resource for one in watches(AppWrapperSettings())}


@pytest.mark.parametrize("wanted", [True, False])
def test_whether_the_rights_of_the_user_are_asked_for(wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}USER_RBAC_ADMISSION_CHECK", str(wanted).lower())
    alice = User("alice", "u-1", ())
    request = Request("CREATE", alice, Key(NS, "w"), wrapper(pod_template("p")), None)
    found = attempt(review, request, Facts(), settings=AppWrapperSettings())
    questions = found.questions if isinstance(found, NeededFacts) else ()
    assert (UserAccess(alice, "create", POD, NS) in questions) is wanted
