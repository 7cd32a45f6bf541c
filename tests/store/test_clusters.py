"""One database has the runs of two clusters: each cluster's API and retention reach their own alone."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from sqlalchemy import select

from fournos.history.api.routes import Route
from fournos.history.api.service import ROUTES
from fournos.history.artifacts import ArtifactLimits
from fournos.history.blobs import Blobs, open_blobs
from fournos.history.records import Document, Identity, Record, Scope
from fournos.history.regressions.review import Acknowledgement
from fournos.history.results.read import read_file
from fournos.history.store import HistoryStore
from fournos.history.store.blobs import BlobRows, LogRows
from fournos.history.store.results import Results
from fournos.history.store.retention import RetentionLimits, expire, largest
from fournos.history.store.schema import metadata, runs
from fournos.history.store.verdicts import Verdicts
from tests.history import a_run, at, ended
from tests.store.served import served
from tests.unit.history.api.service import Reviews
from tests.unit.history.logs.stage import container

HERE, FAR = "here", "production"
RUNS = 16
RESULTS = """\
tests:
  - labels: {{model: llama}}
    kpis: [{{kpi_id: tput, value: {}, unit: tok/s, higher_is_better: true}}]
"""
MARK = "of-production"
"""In everything that the other cluster has."""
BODIES = {
    "keepRun": "{}",
    "pinBaseline": "{}",
    "acknowledge": '{"reason": "x"}',
}
LOG = "log"
"""The blob of all logs."""
CONTENTS = {"putArtifact": "content", "putResults": RESULTS.format(100)}
ORDER = ("POST", "PUT", "GET", "DELETE")


def identity(cluster: str, number: int) -> Identity:
    """The namespace has the same name in both clusters."""
    return Identity(
        cluster, "perf", f"{'0' if cluster == HERE else 'f' * 8:0>8}-0000-0000-0000-{number:012d}"
    )


async def fill(store: HistoryStore, cluster: str) -> None:
    """Runs of one fingerprint whose throughput drops, with all that belongs to runs."""
    mark, uid = (MARK, "uid-far") if cluster == FAR else ("own", "uid-perf")
    for number in range(RUNS):
        run = a_run(
            number,
            identity=identity(cluster, number),
            name=f"job-{number}-{mark}",
            namespace_uid=uid,
            fingerprint="f00d",
            owner=mark,
            gpu_count=8,
            started_at=at(number),
        )
        documents = {Document.OBJECT: {"spec": {"env": {"A": mark}}}}
        await store.record(Record(ended(run), documents=documents))
        log = replace(container("c", pod="p"), task=mark)
        await LogRows(store).put(run.identity, log, LOG)
        value = (100 if number < RUNS - 4 else 50) + number % 3
        assert await Results(store).put(
            run.identity, read_file(RESULTS.format(value).encode()).tests, at(number)
        )
    verdicts, first = Verdicts(store), identity(cluster, 1)
    await verdicts.pin(first, by=mark, reason=mark, now=at(1))
    (series,) = await Results(store).series("f00d", Scope((uid,)))
    drop = Acknowledgement(series.id, first.text, at(1), False, mark, mark, at(2))
    await verdicts.acknowledge(uid, drop)


@dataclass
class Stage:
    store: HistoryStore
    blobs: Blobs
    client: TestClient[Any, Any]
    reviews: Reviews

    async def send(self, route: Route, subject: Identity, **query: str) -> tuple[int, str]:
        path = route.path.format(
            namespace=subject.namespace,
            run=subject.uid,
            document="object",
            path="deep/a.log",
            pod="p",
            container="c",
        )
        given = CONTENTS.get(route.name) or BODIES.get(route.name)
        digest = hashlib.sha256(CONTENTS["putArtifact"].encode()).hexdigest()
        headers = {"Authorization": "Bearer t-ann", "X-Content-SHA256": digest}
        query |= {"name": "r.yaml"} if route.name == "putResults" else {}
        query |= {"since": "2026-01-01"} if "usage" in route.path else {}
        async with self.client.request(
            route.method, f"/apis/history.fournos.dev/v1{path}", params=query, data=given, headers=headers
        ) as response:
            return response.status, await response.text()

    async def rows(self, cluster: str) -> dict[str, list[Any]]:
        """Returns all rows of a cluster, by table."""
        numbers = select(runs.c.id).where(runs.c.cluster == cluster)
        found: dict[str, list[Any]] = {}
        for table in metadata.sorted_tables:
            if "run_id" in table.c:
                where = table.c.run_id.in_(numbers)
            elif "cluster" in table.c:
                where = table.c.cluster == cluster
            elif "run" in table.c:
                where = table.c.run.startswith(f"{cluster}/")
            else:
                continue
            found[table.name] = sorted(await self.store.rows(select(table).where(where)), key=str)
        return found


@pytest.fixture
async def stage(store: HistoryStore, tmp_path: Path) -> AsyncIterator[Stage]:
    """`ann` has all rights of the API in all namespaces of the one cluster."""
    for cluster in (HERE, FAR):
        await fill(store, cluster)
    reviews, blobs = Reviews(), open_blobs(str(tmp_path / "blobs"))
    await blobs.write(LOG, gzip.compress(b"a line\n"))
    for route in routes():
        for access in filter(None, (route.access, route.details)):
            reviews.may("ann", access.verb, namespace="", resource=access.resource)
    async with served(store, blobs, reviews, ArtifactLimits()) as client:
        yield Stage(store, blobs, client, reviews)


def routes() -> Iterator[Route]:
    """All but those of a pod, which acts on its own run: what deletes a run comes last."""
    found = (one for one in ROUTES if not one.own)
    yield from sorted(found, key=lambda one: (ORDER.index(one.method), one.name == "deleteRun"))


async def test_no_route_shows_or_changes_a_run_of_another_cluster(stage: Stage) -> None:
    before = await stage.rows(FAR)
    assert all(before[name] for name in ("runs", "documents", "keeps", "baselines", "acknowledgements"))
    for subject in (identity(FAR, 1), identity(HERE, 1)):
        for route in routes():
            status, answer = await stage.send(route, subject)
            assert MARK not in answer and FAR not in answer, (route.name, answer)
            if "{run}" in route.path and subject.cluster == FAR:
                assert status == 404, (route.name, answer)
            else:
                assert status in (200, 204, 404, 422), (route.name, answer)
            assert await stage.rows(FAR) == before, route.name
    status, answer = await stage.send(
        next(one for one in routes() if one.name == "listRuns"), identity(HERE, 1)
    )
    assert (status, answer.count('"uid":')) == (200, RUNS - 1), "the own runs, but the one that was deleted"


async def test_each_cluster_deletes_what_is_beyond_its_own_limits(stage: Stage) -> None:
    before = await stage.rows(FAR)
    for limits in (RetentionLimits(age=timedelta(0)), RetentionLimits(runs=0)):
        await expire(stage.store, stage.blobs, limits, at(10_000), cluster=HERE)
        assert await stage.rows(FAR) == before
    assert [one.uid for one in (await stage.rows(HERE))["runs"]] == [identity(HERE, 1).uid], "the baseline"


async def test_the_largest_namespaces_are_those_of_the_cluster(stage: Stage) -> None:
    before = (await largest(stage.store, HERE))["perf"]
    for cluster in (HERE, FAR):
        await BlobRows(stage.store).claim_blob(identity(cluster, 1), f"{cluster}/log", 3)
    assert await largest(stage.store, HERE) == {"perf": before + 3}
