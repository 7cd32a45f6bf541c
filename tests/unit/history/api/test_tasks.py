"""What the settings of the API decide."""

from __future__ import annotations

import asyncio

import pytest

from fournos.engine.kube.resource import SECRET, Key
from fournos.history.api.service import api_tasks
from fournos.history.artifacts import Artifact, ArtifactError, ArtifactLimits
from fournos.history.settings import HistorySettings
from tests.unit.engine.runtime.loop import LoopClock
from tests.unit.history.api.service import BEGAN
from tests.world.connection import Connection
from tests.world.server import Server


def tasks(settings: HistorySettings, server: Server) -> list[str]:
    return list(api_tasks(Connection(server), settings, None, LoopClock()))  # type: ignore[arg-type]


def test_without_a_port_there_is_no_api(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tasks(HistorySettings(), Server()) == []
    monkeypatch.setenv("FOURNOS_HISTORY_PORT", "8444")
    assert tasks(HistorySettings(), Server()) == ["history-api", "history-certificate"]


def test_the_service_names_the_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_HISTORY_SERVICE", "history")
    assert HistorySettings().hosts[0] == "history.fournos-history.svc"


@pytest.mark.looptime
async def test_the_certificate_is_in_its_secret(monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setenv("FOURNOS_HISTORY_PORT", "8444")
    monkeypatch.setenv("FOURNOS_HISTORY_CERTIFICATE_SECRET", "mine")
    settings, server = HistorySettings(), Server()
    assert settings.certificate_secret == "mine"
    run = api_tasks(Connection(server), settings, None, LoopClock())["history-certificate"]  # type: ignore[arg-type]
    task = asyncio.ensure_future(run())
    await asyncio.sleep(5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert "tls.crt" in server.get(SECRET, Key("fournos-history", "mine"))["data"]


def test_how_many_artifacts_a_run_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_HISTORY_ARTIFACT_FILES", "1")
    monkeypatch.setenv("FOURNOS_HISTORY_ARTIFACT_MB", "3")
    settings = HistorySettings()
    assert (settings.artifact_files, settings.artifact_mb) == (1, 3)
    assert settings.artifact_limits == ArtifactLimits(1, 3_000_000)
    present = [Artifact("a", 1, "0" * 64, BEGAN)]
    settings.artifact_limits.check(present, "a", 3_000_000)
    with pytest.raises(ArtifactError):
        settings.artifact_limits.check(present, "b", 1)
    with pytest.raises(ArtifactError):
        settings.artifact_limits.check(present, "a", 3_000_001)
