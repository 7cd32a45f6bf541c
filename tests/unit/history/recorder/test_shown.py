"""The object of a recorded run, found in the caches."""

from __future__ import annotations

from typing import Any, cast

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import NAMESPACE
from fournos.engine.kube.store import Store
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.manager import Manager
from fournos.history.recorder.controller import LiveObjects
from tests.history import CLUSTER, a_run

JOB = {"metadata": {"namespace": "bench", "name": "job-1", "uid": "uid-1"}}


class Managed:
    """A manager with one job in its caches."""

    def caches(self, controller: str) -> Caches:
        assert controller == "history-fournosjobs"
        stores: dict[Any, Store] = {FOURNOS_JOB: Store(), NAMESPACE: Store()}
        stores[FOURNOS_JOB].replace([JOB], "1")
        stores[NAMESPACE].replace([{"metadata": {"name": "kube-system", "uid": CLUSTER}}], "1")
        return Caches(stores)


def test_a_run_is_found_by_its_uid() -> None:
    shown = LiveObjects([FOURNOS_JOB])
    assert (shown.cluster(), shown.find(a_run(1))) == ("", None)
    shown.started(cast(Manager, Managed()))
    assert shown.cluster() == CLUSTER
    assert shown.find(a_run(1)) == (FOURNOS_JOB, JOB)
    assert shown.find(a_run(2)) is None, "it does not exist"
    assert shown.find(a_run(2, name="job-1")) is None, "another one has its name"
    assert shown.find(a_run(1, kind="AppWrapper")) is None, "a kind that is not recorded"
