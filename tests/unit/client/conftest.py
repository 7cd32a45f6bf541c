from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from fournos.client import AsyncClient
from tests.unit.client.world import NS, Api


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FOURNOS_NAMESPACE", "FOURNOS_OWNER", "FOURNOS_KUEUE_LOCAL_QUEUE_NAME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
async def client(api: Api) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(api=api, namespace=NS, owner="perf") as found:
        yield found
