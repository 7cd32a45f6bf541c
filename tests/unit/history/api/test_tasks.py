"""What the settings of the API decide."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from cryptography import x509

from fournos.engine.kube.errors import KubeError, ServerError
from fournos.engine.kube.resource import SECRET, Key, Obj
from fournos.history.api import service
from fournos.history.api.service import api_tasks
from fournos.history.artifacts import Artifact, ArtifactError, ArtifactLimits
from fournos.history.settings import HistorySettings
from tests.fakes.pki import Authority
from tests.unit.engine.runtime.loop import LoopClock
from tests.unit.history.api.service import BEGAN
from tests.unit.history.api.test_identity import PROXY, config_map
from tests.world.connection import Connection
from tests.world.server import Server


def tasks(settings: HistorySettings, server: Server) -> list[str]:
    return list(api_tasks(Connection(server), settings, None, LoopClock()))  # type: ignore[arg-type]


def test_without_a_port_there_is_no_api(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tasks(HistorySettings(), Server()) == []
    monkeypatch.setenv("FOURNOS_HISTORY_PORT", "8444")
    assert tasks(HistorySettings(), Server()) == ["history-api", "history-api-certificate"]


@pytest.mark.looptime
async def test_the_certificate_is_of_the_namespace_of_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_HISTORY_PORT", "8444")
    monkeypatch.setenv("FOURNOS_CONTROLLER_NAMESPACE", "mine")
    settings, server = HistorySettings(), Server()
    run = api_tasks(Connection(server), settings, None, LoopClock())["history-api-certificate"]  # type: ignore[arg-type]
    task = asyncio.ensure_future(run())
    await asyncio.sleep(5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    made = server.get(SECRET, Key("mine", "fournos-history-cert"))["data"]["tls.crt"]
    certificate = x509.load_pem_x509_certificate(base64.b64decode(made))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "fournos-history.mine.svc" in names.get_values_for_type(x509.DNSName)


@pytest.mark.looptime
async def test_who_forwards_requests_is_followed_within_a_minute_and_stays_while_it_cannot_be_read() -> None:
    """OpenShift replaces the authority of its front proxy about each month."""
    following = Authority("next-front-proxy").certificate
    answers: list[Obj | KubeError] = [
        config_map(),
        ServerError("x", status=500),
        {"data": {}},
        config_map(**{"requestheader-client-ca-file": following.decode()}),
    ]
    trusted: list[bytes] = []

    class Forwarding:
        async def get(self, *_: object) -> Obj:
            answer = answers.pop(0)
            if isinstance(answer, KubeError):
                raise answer
            return answer

        def trust(self, authority: bytes, proxy: object) -> None:
            trusted.append(authority)

    forwarding: Any = Forwarding()
    task = asyncio.create_task(service._follow(forwarding, forwarding))
    await asyncio.sleep(60 * 4 + 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert trusted == [PROXY.certificate, following]


def test_how_many_artifacts_a_run_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_HISTORY_ARTIFACT_MB", "3")
    settings = HistorySettings()
    assert settings.artifact_limits == ArtifactLimits(1_000, 3_000_000)
    present = [Artifact("a", 1, "0" * 64, BEGAN)]
    settings.artifact_limits.check(present, "a", 3_000_000)
    with pytest.raises(ArtifactError):
        settings.artifact_limits.check(present, "b", 3_000_000)
    with pytest.raises(ArtifactError):
        settings.artifact_limits.check(present, "a", 3_000_001)
