"""Both databases, a file of SQLite and a real PostgreSQL; both stores of blobs, a directory and a real S3."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from devcluster.postgres import Postgres
from fournos.history.blobs import Blobs, open_blobs
from fournos.history.store import HistoryStore
from fournos.history.store.blobs import ArtifactRows
from tests.store.s3_server import S3Server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server for all tests of a process that need one."""
    server = Postgres()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
async def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'history.db'}"
    server: Postgres = request.getfixturevalue("postgres")
    return server.make_database()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the tables and nothing in them, to be copied: all revisions take longer than a test."""
    path = tmp_path_factory.mktemp("template") / "history.db"
    asyncio.run(_migrate(f"sqlite:///{path}"))
    return path


@pytest.fixture(scope="session")
def postgres_template(postgres: Postgres) -> str:
    """The URL of such a database."""
    url = postgres.make_database()
    asyncio.run(_migrate(url))
    return url


async def _migrate(url: str) -> None:
    await (await HistoryStore.open(url)).close()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database with the tables and nothing in them."""
    if request.param == "sqlite":
        path = tmp_path / "history.db"
        shutil.copyfile(request.getfixturevalue("sqlite_template"), path)
        return f"sqlite:///{path}"
    template = request.getfixturevalue("postgres_template")
    server: Postgres = request.getfixturevalue("postgres")
    return server.make_database(template)


@pytest.fixture
async def store(url: str) -> AsyncIterator[HistoryStore]:
    async with await HistoryStore.open(url) as opened:
        yield opened


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A server for all tests of a process that need one."""
    server = S3Server()
    yield server
    server.close()


@pytest.fixture
def s3_keys(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server, and the credentials that may do anything, in the environment."""
    for name, value in s3_server.variables().items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=["directory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place of blobs that is empty."""
    if request.param == "directory":
        return str(tmp_path / "blobs")
    server: S3Server = request.getfixturevalue("s3_server")
    request.getfixturevalue("s3_keys")
    return server.place()


@pytest.fixture
def blobs(place: str) -> Blobs:
    return open_blobs(place)


async def keys_of(blobs: Blobs) -> list[str]:
    """Returns the keys of all blobs."""
    return sorted([one["path"] async for page in blobs._store.list() for one in page])


def artifact_rows(store: HistoryStore) -> Callable[[], Awaitable[ArtifactRows]]:
    """What `Artifacts` asks for the rows of an open store."""

    async def rows() -> ArtifactRows:
        return ArtifactRows(store)

    return rows
