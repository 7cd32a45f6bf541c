"""Certificates that expire, before or during use: the status reports it, and no job is sent there."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.api.conditions import condition
from fournos.engine.kube.resource import SECRET, Key
from tests.fakes.pki import Authority
from tests.faults.proxy import FaultProxy
from tests.integration.clusters.conftest import SLOT, ClusterStage

PEOPLE = Authority("people")


def of_client(proxy: FaultProxy, tmp_path: Path, *, until: datetime) -> bytes:
    """A kubeconfig for the proxy, which requires no identity, with a client certificate."""
    content: dict[str, Any] = yaml.safe_load(proxy.write_kubeconfig(tmp_path / "proxied").read_bytes())
    pair = PEOPLE.issue("ann", until=until)
    content["users"][0]["user"] = {
        "client-certificate-data": base64.b64encode(pair.certificate).decode(),
        "client-key-data": base64.b64encode(pair.key).decode(),
    }
    return yaml.safe_dump(content).encode()


async def test_expired_certificates(
    hub: ClusterStage, gpu_node: str, kubeconfig: Path, tmp_path: Path
) -> None:
    hub.start(enable="clusters")
    now = datetime.now(UTC)
    past = now - timedelta(minutes=1)

    async def becomes(cluster: str, status: str) -> bool:
        return (await hub.status(cluster)).get("kubeconfigStatus") == status

    async def reported(cluster: str, type_: str) -> tuple[str, str]:
        found = condition(await hub.cluster(cluster), type_) or {}
        return str(found.get("reason")), str(found.get("message"))

    async with (
        FaultProxy(kubeconfig, tls=True) as good,
        FaultProxy(kubeconfig, tls=True, until=past) as stale,
    ):
        # The client's had expired when it came.
        gone = f"{hub.name}-gone"
        await hub.add(gone, of_client(good, tmp_path, until=past))
        took = await hub.seconds_until(
            lambda: becomes(gone, "Invalid"), "an expired certificate is not refused"
        )
        reason, message = await reported(gone, "KubeconfigValid")
        assert reason == "CertificateExpired"
        assert message.startswith("kubeconfig: its client certificate expired at 20")
        assert (await reported(gone, "Reachable"))[0] == "CertificateExpired"

        # The client's expires while it is in use; its Secret heals it.
        ends = f"{hub.name}-ends"
        life = timedelta(seconds=5 + 5 * took)  # it must be seen in use before it ends
        await hub.add(ends, of_client(good, tmp_path, until=datetime.now(UTC) + life))
        await hub.until(lambda: becomes(ends, "Valid"), "a certificate that is good is refused")
        status = await hub.status(ends)
        assert status["connection"]["certificateExpires"] and (await reported(ends, "KubeconfigValid"))[
            0
        ] == ("ExpiresSoon")

        async def slots(wanted: int) -> bool:
            return (await hub.quotas()).get(ends, {}).get(SLOT) == wanted

        await hub.until(lambda: slots(100), "it takes no jobs")
        await hub.until(lambda: becomes(ends, "Invalid"), "an expiry is not noticed")
        for type_ in ("Reachable", "KubeconfigValid"):
            reason, message = await reported(ends, type_)
            assert reason == "CertificateExpired" and "expired at 20" in message
        await hub.until(lambda: slots(0), "it still takes jobs")
        renewed = of_client(good, tmp_path, until=now + timedelta(days=90))
        body = {"data": {"kubeconfig": base64.b64encode(renewed).decode()}}
        await hub.client.patch(SECRET, Key(hub.secrets, f"kubeconfig-{ends}"), body)
        await hub.until(lambda: slots(100), "a new certificate heals nothing")
        assert (await reported(ends, "KubeconfigValid"))[0] == "Accepted"

        # The server's has expired: nothing in the Secret can help.
        served = f"{hub.name}-served"
        await hub.add(served, of_client(stale, tmp_path, until=now + timedelta(days=90)))
        await hub.until(lambda: becomes(served, "Unreachable"), "a stale server certificate is trusted")
        reason, message = await reported(served, "Reachable")
        assert reason == "ServerCertificateInvalid" and "certificate has expired" in message
        for name in (gone, ends, served):
            await hub.client.delete(FOURNOS_CLUSTER, Key(hub.name, name))
            await hub.until(lambda name=name: hub.gone(name), "it is not decommissioned")  # type: ignore[misc]
    assert b"PRIVATE KEY" not in hub.log.read_bytes()
