"""Namespaces of the cluster are deleted beside the history, with its store away and without it."""

from __future__ import annotations

from pathlib import Path

from fournos.engine.api.conditions import condition, is_true
from fournos.history.api.server import DISCOVERY
from tests.integration.conftest import Server
from tests.integration.history import test_api
from tests.integration.history.test_api import PATHS, SLICE, delete_namespace, namespace_gone
from tests.integration.history.test_recorder import recorder
from tests.integration.jobs.stage import JobStage
from tests.waiting import free_port, until

account, cluster, kubeconfig, published, stage = (
    test_api.account,
    test_api.cluster,
    test_api.kubeconfig,
    test_api.published,
    test_api.stage,
)


async def test_namespaces_are_deleted_while_the_store_is_away(
    stage: JobStage,
    server: Server,
    kubeconfig: Path,
    account: str,
    published: tuple[str, int],
    tmp_path: Path,
) -> None:
    """Without any history, they wait until it answers or its APIService is deleted, as the docs say."""
    _, port = published
    settings = {
        "HISTORY_URL": f"postgresql://nobody@127.0.0.1:{free_port()}/nothing",
        "HISTORY_PORT": str(port),
        "HISTORY_DIRECTORY": str(tmp_path),
    }
    process = recorder(kubeconfig, account, tmp_path, stage.namespace, settings=settings)
    stage.operators.append(process)

    async def available() -> str:
        _, found = await server("GET", f"{PATHS['APIService']}/v1.history.fournos.dev")
        return str((condition(found, "Available") or {}).get("status"))

    async def reached() -> bool:
        return await available() == "True"

    await until(reached, "the API server does not reach the history")
    assert await server("GET", "/apis/history.fournos.dev/v1") == (200, DISCOVERY)
    status, answer = await server("GET", "/apis/history.fournos.dev/v1/runs")
    assert status == 503 and answer["message"].startswith("the store of the history does not answer, its API")
    await delete_namespace(server, f"{stage.namespace}-away")
    await namespace_gone(server, f"{stage.namespace}-away")

    process.kill()
    await server("DELETE", SLICE)
    name = f"{stage.namespace}-down"

    async def lost() -> bool:
        return await available() == "False"

    await until(lost, "the APIService counts as available")
    await delete_namespace(server, name)

    async def waits() -> bool:
        _, found = await server("GET", f"/api/v1/namespaces/{name}")
        return is_true(found, "NamespaceDeletionDiscoveryFailure")

    await until(waits, "the namespace does not wait for the history")
    await server("DELETE", f"{PATHS['APIService']}/v1.history.fournos.dev")
    await namespace_gone(server, name)
