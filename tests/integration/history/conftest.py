"""The store on both databases: a file of SQLite, and a real PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from devcluster.postgres import Postgres
from fournos.history.store import Store


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server for all tests of a process that need one."""
    server = Postgres()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'history.db'}"
    server: Postgres = request.getfixturevalue("postgres")
    return server.make_database()


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with await Store.open(url) as opened:
        yield opened
