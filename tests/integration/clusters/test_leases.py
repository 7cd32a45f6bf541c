"""Two processes with the cluster system in common: one of them has it, and both have what is theirs alone."""

from __future__ import annotations

from pathlib import Path

from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.resource import LEASE, Key
from tests.integration.clusters.conftest import ClusterStage


async def test_each_part_is_led_by_one_process(hub: ClusterStage, kubeconfig: Path, tmp_path: Path) -> None:
    both = ClusterStage(hub.client, hub.name, kubeconfig, tmp_path / "both")
    both.log.parent.mkdir()

    async def holder(lease: str) -> str:
        try:
            found = await hub.client.get(LEASE, Key(hub.name, lease))
        except NotFoundError:
            return ""
        return str(found["spec"].get("holderIdentity") or "")

    async def held(lease: str, *, not_by: str = "") -> bool:
        return await holder(lease) not in ("", not_by)

    hub.start(enable="clusters")
    try:
        await hub.until(lambda: held("hearth"), "nobody leads the clusters")
        alone = await holder("hearth")
        both.start(enable="jobs,clusters")
        await both.until(lambda: held("fournos"), "nobody leads the jobs")
        assert await holder("hearth") == alone != await holder("fournos")
        hub.stop()
        await both.until(lambda: held("hearth", not_by=alone), "nobody follows")
        assert await holder("hearth") == await holder("fournos")
    finally:
        both.stop()
    assert not await held("hearth") and not await held("fournos")
