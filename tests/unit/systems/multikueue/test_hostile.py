"""A worker may hand us anything: what is kept of it never makes a decision raise."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fournos.engine.api.values import format_time
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.decision import Facts
from fournos.systems.multikueue import names
from fournos.systems.multikueue.decide import decide
from fournos.systems.multikueue.observe import Observed, Remote, project_remote_job, project_remote_workload
from tests.unit.systems.multikueue.workers import FOO, SETTINGS

NOW = datetime(2030, 1, 1, tzinfo=UTC)
AT = format_time(NOW)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
CONDITIONS = st.lists(
    ANYTHING
    | st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["Admitted", "Evicted", "Finished", "QuotaReserved"]) | ANYTHING,
            "status": st.sampled_from(["True", "False"]) | ANYTHING,
            "reason": ANYTHING,
            "message": ANYTHING,
            "lastTransitionTime": st.just(AT) | ANYTHING,
        },
    ),
    max_size=5,
)
STATUS = st.dictionaries(st.text(), ANYTHING, max_size=3) | st.fixed_dictionaries(
    {"conditions": CONDITIONS | ANYTHING}, optional={"observedGeneration": ANYTHING, "phase": ANYTHING}
)


def meta(name: str, **more: Any) -> dict[str, Any]:
    own = {names.ATTEMPT: f"{AT}/0", names.WORKER: "w1", **more.pop("annotations", {})}
    return {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "7", "annotations": own, **more}


@pytest.mark.parametrize("claim", ["", "w1"])
@given(twin=STATUS, copy=STATUS, spec=st.dictionaries(st.text(), ANYTHING, max_size=2))
def test_no_decision_raises(claim: str, twin: Any, copy: Any, spec: Any) -> None:
    reserved = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": AT}
    owner = {"apiVersion": "example.com/v1", "kind": "Foo", "name": "a", "uid": "a", "controller": True}
    check = {"metadata": {"name": "check", "uid": "c", "resourceVersion": "1"}, "spec": {}}
    status: dict[str, Any] = {
        "conditions": [reserved],
        "admissionChecks": [{"name": "check", "state": "Pending", "message": ""}],
    }
    if claim:
        status["clusterName"] = claim
    else:
        status["nominatedClusterNames"] = ["w1"]
    workload = {
        "metadata": {**meta("foo-a"), "ownerReferences": [owner]},
        "spec": {"podSets": []},
        "status": status,
    }
    job = {"metadata": meta("a"), "spec": {"managedBy": names.MULTIKUEUE}}
    foreign = {
        "metadata": meta("foo-a", annotations={names.WORKLOAD_UID: "foo-a"}),
        "spec": spec,
        "status": twin,
    }
    mirror = {"metadata": meta("a", annotations={names.JOB_UID: "a"}), "spec": spec, "status": copy}
    remote = Remote(
        "w1",
        listed=True,
        usable=True,
        workload=project_remote_workload(foreign),
        jobs=((FOO, project_remote_job(mirror)),),
        last_read="7",
    )
    seen = Observed(Key("ns", "foo-a"), workload, check, FOO, job, (remote,))
    decide(seen, Facts(), NOW, settings=SETTINGS)
