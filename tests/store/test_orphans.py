"""Blobs that belong to nothing, in both databases and both stores of blobs."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from fournos.history.artifacts.archive import Artifacts, StoredArtifact, UploadBusyError
from fournos.history.artifacts.rules import Artifact, ArtifactError, ArtifactLimits
from fournos.history.blobs import Blobs
from fournos.history.records import Record
from fournos.history.store import HistoryStore
from fournos.history.store.artifacts import ArtifactRows
from fournos.history.store.blob_rows import BlobRows
from fournos.history.store.orphans import AGE, OrphanBlobs, sweep_orphans
from fournos.history.store.retention import erase
from tests.history import a_run, at
from tests.store.conftest import keys_of

RUN = a_run(1)
IDENTITY = RUN.identity
CONTENT = b"latency: 3 ms\n"


class Replica:
    """A process that takes artifacts; others share its database and its blobs."""

    def __init__(self, store: HistoryStore, blobs: Blobs) -> None:
        self.rows = ArtifactRows(store)
        self.artifacts = Artifacts(self._opened, blobs, ArtifactLimits())

    async def _opened(self) -> ArtifactRows:
        return self.rows

    async def send(self, path: str, content: bytes = CONTENT, *, sent: bytes | None = None) -> Artifact:
        async def pieces() -> AsyncIterator[bytes]:
            yield content if sent is None else sent

        digest = hashlib.sha256(content).hexdigest()
        return await self.artifacts.receive(
            IDENTITY, path, pieces(), size=len(content), sha256=digest, now=at(0)
        )

    async def get(self, path: str) -> bytes | None:
        found = await self.artifacts.find(IDENTITY, path)
        return (
            None if found is None else b"".join([one async for one in self.artifacts.read(IDENTITY, found)])
        )


@pytest.fixture
async def replica(store: HistoryStore, blobs: Blobs) -> Replica:
    await store.record(Record(RUN))
    return Replica(store, blobs)


def later(age: timedelta = AGE) -> datetime:
    return datetime.now(UTC) + age + timedelta(minutes=1)


async def test_what_a_killed_upload_left_is_swept_after_a_day(
    replica: Replica, store: HistoryStore, blobs: Blobs
) -> None:
    await replica.send("kept.txt")
    unfinished = f"{IDENTITY.uid}/artifacts/{'a' * 64}-00000000/000000"
    assert await BlobRows(store).claim_blob(IDENTITY, unfinished, 3)
    await blobs.write(unfinished, b"abc")
    log_chunk = f"{IDENTITY.uid}/logs/pod/step-run/000000"
    assert await BlobRows(store).claim_blob(IDENTITY, log_chunk, 3)
    await blobs.write(log_chunk, b"log")
    before = await keys_of(blobs)
    assert await sweep_orphans(store, blobs, datetime.now(UTC)) == OrphanBlobs(), "it may go on"
    assert await keys_of(blobs) == before
    assert await sweep_orphans(store, blobs, later()) == OrphanBlobs(deleted=1)
    assert await keys_of(blobs) == [key for key in before if key != unfinished]
    assert await replica.get("kept.txt") == CONTENT
    assert await sweep_orphans(store, blobs, later()) == OrphanBlobs()


async def test_what_has_no_run_goes_only_when_a_person_asks(
    replica: Replica, store: HistoryStore, blobs: Blobs
) -> None:
    await replica.send("kept.txt")
    strange = [
        f"{a_run(7).identity.uid}/logs/pod/step-run/000000",
        f"{a_run(7).identity.uid}/artifacts/{'b' * 64}-00000000/000000",
        "fournos-probe",
    ]
    for key in strange:
        await blobs.write(key, b"x")
    assert await sweep_orphans(store, blobs, later()) == OrphanBlobs(unknown=3)
    assert set(strange) <= set(await keys_of(blobs))
    assert await sweep_orphans(store, blobs, later(), unknown=True) == OrphanBlobs(deleted=3)
    assert await replica.get("kept.txt") == CONTENT
    assert len(await keys_of(blobs)) == 1


async def test_a_process_that_ends_between_row_and_blob(
    replica: Replica, store: HistoryStore, blobs: Blobs
) -> None:
    """The row of a blob that is to be deleted stays until the blob is gone."""
    await replica.send("x")
    (stored,) = await replica.rows.stored_artifacts(IDENTITY)
    await replica.send("x", b"other")
    assert await keys_of(blobs) != stored.keys(IDENTITY.uid)
    # Killed after the release: blob and row are there, and nothing refers to them.
    (now,) = await replica.rows.stored_artifacts(IDENTITY)
    async with store.writing() as connection:
        await connection.exec_driver_sql("DELETE FROM artifacts")
    assert await replica.rows.release_artifact(IDENTITY, now) == now.keys(IDENTITY.uid)
    assert await keys_of(blobs) == now.keys(IDENTITY.uid)
    await erase(store, blobs, [], at(0))
    assert await keys_of(blobs) == []


async def test_two_replicas_take_the_same_file(replica: Replica, store: HistoryStore, blobs: Blobs) -> None:
    other = Replica(store, blobs)

    async def pieces() -> AsyncIterator[bytes]:
        yield CONTENT[:5]
        # Meanwhile the other one takes all of it, and one that is altered on its way.
        await other.send("report.txt")
        with pytest.raises(ArtifactError, match="checksum"):
            await Replica(store, blobs).send("bad.txt", b"hello", sent=b"HELLO")
        yield CONTENT[5:]

    digest = hashlib.sha256(CONTENT).hexdigest()
    await replica.artifacts.receive(
        IDENTITY, "report.txt", pieces(), size=len(CONTENT), sha256=digest, now=at(0)
    )
    assert await replica.get("report.txt") == await other.get("report.txt") == CONTENT
    assert len(await keys_of(blobs)) == 1, "the content that lost is deleted"


async def test_an_altered_upload_does_not_touch_the_one_beside_it(
    replica: Replica, store: HistoryStore, blobs: Blobs
) -> None:
    other = Replica(store, blobs)

    async def pieces() -> AsyncIterator[bytes]:
        yield CONTENT
        with pytest.raises(ArtifactError, match="checksum"):
            await other.send("report.txt", sent=b"X" * len(CONTENT))

    digest = hashlib.sha256(CONTENT).hexdigest()
    await replica.artifacts.receive(
        IDENTITY, "report.txt", pieces(), size=len(CONTENT), sha256=digest, now=at(0)
    )
    assert await other.get("report.txt") == CONTENT


async def test_content_that_is_being_deleted_is_not_shared(replica: Replica) -> None:
    await replica.send("a")
    (stored,) = await replica.rows.stored_artifacts(IDENTITY)
    assert await replica.rows.release_artifact(IDENTITY, stored) == [], "it is used"
    find = replica.rows.stored_artifacts

    async def stale(identity: object) -> list[StoredArtifact]:
        """What this replica read before the other one replaced the file."""
        return [stored]

    await replica.send("a", b"other")
    replica.rows.stored_artifacts = stale  # type: ignore[method-assign,assignment]
    with pytest.raises(UploadBusyError, match="its content is being replaced; send it again later"):
        await replica.send("b")
    replica.rows.stored_artifacts = find  # type: ignore[method-assign]
    assert await replica.get("b") is None
    assert await replica.send("b") and await replica.get("b") == CONTENT


async def test_content_of_a_version_without_uploads_is_read_and_shared(
    replica: Replica, store: HistoryStore, blobs: Blobs
) -> None:
    digest = hashlib.sha256(CONTENT).hexdigest()
    key = f"{IDENTITY.uid}/artifacts/{digest}/000000"
    assert await BlobRows(store).claim_blob(IDENTITY, key, len(CONTENT))
    await blobs.write(key, CONTENT)
    await replica.rows.put_artifact(
        IDENTITY, StoredArtifact(Artifact("old", len(CONTENT), digest, at(0)), "")
    )
    assert await replica.get("old") == CONTENT
    await replica.send("copy")
    assert await sweep_orphans(store, blobs, later()) == OrphanBlobs()
    await replica.send("old", b"new")
    assert await replica.get("copy") == CONTENT
    assert key in await keys_of(blobs)
    await replica.send("copy", b"new")
    assert key not in await keys_of(blobs)


async def test_the_retention_reports_what_stays(
    replica: Replica, store: HistoryStore, blobs: Blobs, caplog: pytest.LogCaptureFixture
) -> None:
    from fournos.history.store import retention

    with caplog.at_level(logging.INFO):
        retention._tell(OrphanBlobs(deleted=2, unknown=3))
        retention._tell(OrphanBlobs())
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    assert "3 files of logs and artifacts have no run" in caplog.text
