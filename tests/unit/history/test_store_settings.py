"""The settings of the history's store."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from fournos.history.store.retention import Limits
from fournos.history.store_settings import StoreSettings


def test_without_settings_runs_expire_and_the_database_is_a_file() -> None:
    settings = StoreSettings()
    assert settings.database_url == "sqlite:////var/lib/fournos/history.db"
    assert settings.blobs == Path("/var/lib/fournos/blobs")
    assert Limits.of(settings) == Limits(timedelta(days=90), 100_000, 50_000_000_000)


def test_each_limit_can_be_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAYS", "RUNS", "MB"):
        monkeypatch.setenv(f"FOURNOS_HISTORY_RETENTION_{name}", "0")
    assert Limits.of(StoreSettings()) == Limits(None, None, None)


def test_a_password_in_the_url_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_HISTORY_URL", "postgresql://me:hunter2@db/history")
    settings = StoreSettings()
    assert settings.database_url == "postgresql://me:hunter2@db/history"
    assert "hunter2" not in repr(settings)


def test_a_negative_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_HISTORY_RETENTION_DAYS", "-1")
    with pytest.raises(ValidationError):
        StoreSettings()


def test_the_directory_holds_the_database_and_the_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_HISTORY_DIRECTORY", "/data")
    settings = StoreSettings()
    assert (settings.database_url, settings.blobs) == ("sqlite:////data/history.db", Path("/data/blobs"))


def test_each_limit_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RETENTION_DAYS", "7"), ("RETENTION_RUNS", "5"), ("RETENTION_MB", "3")):
        monkeypatch.setenv(f"FOURNOS_HISTORY_{name}", value)
    assert Limits.of(StoreSettings()) == Limits(timedelta(days=7), 5, 3_000_000)
