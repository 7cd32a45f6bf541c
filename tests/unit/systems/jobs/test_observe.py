"""What a pass reads of a job, and what of it is kept for the next pass."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.fournosjob import FournosJobSpec
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Key
from fournos.engine.kube.store import Store
from fournos.engine.runtime.controller import Caches
from fournos.systems.jobs.observe import Observer, watches
from fournos.systems.jobs.settings import JobSettings

SETTINGS = JobSettings(namespace="bench")
JOB = Key(SETTINGS.namespace, "a")


def caches(*jobs: dict[str, Any]) -> Caches:
    stores = {
        watch.resource: Store(project=watch.project, indexes=watch.indexes) for watch in watches(SETTINGS)
    }
    stores[FOURNOS_JOB].replace(jobs, "1")
    return Caches(stores)


def job(owner: str, *, uid: str = "1", generation: int = 1) -> dict[str, Any]:
    metadata = {"namespace": JOB.namespace, "name": JOB.name, "uid": uid, "resourceVersion": "1"}
    return {"metadata": {**metadata, "generation": generation}, "spec": {"owner": owner}}


def test_a_spec_is_parsed_once_for_each_generation_of_each_job(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = FournosJobSpec.model_validate

    def counting(spec: dict[str, Any]) -> FournosJobSpec:
        parsed.append(spec["owner"])
        return parse(spec)

    monkeypatch.setattr(FournosJobSpec, "model_validate", counting)
    observe = Observer(SETTINGS)
    for found in (
        caches(job("ann")),
        caches(job("ann")),
        caches(job("bob", generation=2)),
        caches(job("cid", uid="2")),
        caches(),
        caches(job("cid", uid="2")),
    ):
        observe(found, JOB)
    assert parsed == ["ann", "bob", "cid", "cid"], "of a job that is gone nothing is kept"


def test_a_job_that_was_pending_is_known_until_it_is_gone() -> None:
    def queued_before(caches: Caches) -> bool | None:
        observed = observe(caches, JOB)
        return observed and observed.queued_before

    observe, new = Observer(SETTINGS), job("ann")
    queued, other = {**new, "status": {"phase": "Pending"}}, job("ann", uid="2")
    lives = [caches(new), caches(queued), caches(queued), caches(other), caches(), caches(queued)]
    assert [queued_before(each) for each in lives] == [False, False, True, False, None, False]
