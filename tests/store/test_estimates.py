"""How long runs of a kind took, and the routes that say it."""

from __future__ import annotations

from typing import Any

from fournos.history.artifacts import ArtifactLimits
from fournos.history.blobs import Blobs
from fournos.history.records import Ending, Identity, Record, Run
from fournos.history.store import HistoryStore
from fournos.history.store.usage import typical
from tests.history import a_run, at, ended
from tests.store.served import served
from tests.unit.history.api.service import Reviews

WORK = {"fingerprint": "f", "pipeline": "p", "project": "x", "gpu_type": "a100", "gpu_count": 2}


async def past(store: HistoryStore, number: int, seconds: float, **fields: Any) -> None:
    run = a_run(number, started_at=at(number), **{**WORK, **fields})
    await store.record(
        Record(ended(run, after=seconds, **({"ending": fields["ending"]} if "ending" in fields else {})))
    )


async def of(store: HistoryStore, **fields: Any) -> tuple[float | None, int]:
    run: Run = a_run(999, **{**WORK, **fields})
    (found,) = await typical(store, [run])
    return found.seconds, found.runs


async def test_the_median_of_the_closest_kind_of_which_there_are_enough(store: HistoryStore) -> None:
    for number, seconds in enumerate((10, 20, 60)):
        await past(store, number, seconds)
    for number in range(10, 13):
        await past(store, number, 300, fingerprint="other", gpu_type="h100")
    assert await of(store) == (20, 3)
    assert await of(store, fingerprint="new") == (20, 3), "a job that waits has no cluster yet"
    assert await of(store, fingerprint="new", project="y") == (180, 6), "the same pipeline"
    assert await of(store, pipeline="none", fingerprint="none") == (None, 0)
    assert await of(store, pipeline="", fingerprint="") == (None, 0), "a lock is ended by a person"
    assert await of(store, namespace_uid="another") == (None, 0)


async def test_which_runs_count(store: HistoryStore) -> None:
    for number in range(2):
        await past(store, number, 10)
    await past(store, 2, 10, ending=Ending.DELETED)
    await store.record(Record(a_run(3, **WORK, started_at=at(3))))
    assert await of(store) == (None, 0)
    await past(store, 4, 40, phase="Failed")
    assert await of(store) == (10, 3)
    for number in range(5, 65):
        await past(store, number, 70)
    assert await of(store) == (70, 50), "the newest"


async def test_the_routes(store: HistoryStore, blobs: Blobs) -> None:
    def place(number: int) -> dict[str, Any]:
        return {"identity": Identity("here", "perf", f"u-{number}"), "namespace_uid": "uid-perf"}

    for number in range(3):
        await past(store, number, 60, **place(number))
    await store.record(Record(a_run(7, **WORK, **place(7), name="waits", phase="Pending")))
    begun = {"phase": "Running", "started_at": at(9)}
    await store.record(Record(a_run(8, **WORK, **place(8), name="runs", **begun)))
    reviews = Reviews()
    for verb in ("get", "list"):
        reviews.may("ann", verb, resource="estimates")
    where = "/apis/history.fournos.dev/v1/namespaces/perf/estimates"
    headers = {"Authorization": "Bearer t-ann"}
    async with served(store, blobs, reviews, ArtifactLimits()) as client:
        async with client.get(where, headers=headers) as response:
            rows = [
                (one["name"], one["runningSince"], one["seconds"], one["runs"])
                for one in await response.json()
            ]
        assert rows == [("runs", "2026-03-01T08:00:09Z", 60, 3), ("waits", None, 60, 3)]
        async with client.get(f"{where}/waits", headers=headers) as response:
            assert (await response.json())["name"] == "waits"
        for gone in ("job-1", "none"):
            async with client.get(f"{where}/{gone}", headers=headers) as response:
                assert response.status == 404
        async with client.get(where, headers={"Authorization": "Bearer t-root"}) as response:
            assert response.status == 403
