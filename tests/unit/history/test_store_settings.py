"""The settings of the history's store."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import ValidationError

from fournos.history.settings import StoreSettings
from fournos.history.store.retention import RetentionLimits


def test_without_settings_runs_expire_and_the_database_is_a_file() -> None:
    settings = StoreSettings()
    assert settings.database_url == "sqlite:////var/lib/fournos/history.db"
    assert settings.blob_place == "/var/lib/fournos/blobs"
    assert RetentionLimits.of(settings) == RetentionLimits(timedelta(days=90), 100_000)
    assert settings.namespace_bytes == 5_000_000_000


def test_each_limit_can_be_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RETENTION_DAYS", "RETENTION_RUNS", "NAMESPACE_MB"):
        monkeypatch.setenv(f"FOURNOS_HISTORY_{name}", "0")
    assert RetentionLimits.of(StoreSettings()) == RetentionLimits(None, None)
    assert StoreSettings().namespace_bytes == 0


def test_a_password_in_the_url_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_HISTORY_URL", "postgresql://me:hunter2@db/history")
    settings = StoreSettings()
    assert settings.database_url == "postgresql://me:hunter2@db/history"
    assert "hunter2" not in repr(settings)


def test_each_limit_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RETENTION_DAYS", "7"), ("RETENTION_RUNS", "5"), ("NAMESPACE_MB", "3")):
        monkeypatch.setenv(f"FOURNOS_HISTORY_{name}", value)
    assert RetentionLimits.of(StoreSettings()) == RetentionLimits(timedelta(days=7), 5)
    assert StoreSettings().namespace_bytes == 3_000_000


def test_the_blobs_are_in_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"BLOBS": "s3://perf-history/fournos/prod/", "S3_CA_FILE": "/etc/ca.crt"}.items():
        monkeypatch.setenv(f"FOURNOS_HISTORY_{name}", value)
    settings = StoreSettings()
    assert (settings.blob_place, settings.s3_ca_file) == ("s3://perf-history/fournos/prod", "/etc/ca.crt")


@pytest.mark.parametrize(
    "value",
    [
        *("s3://key:hunter2@bucket/x", "/var/lib/blobs", "s3://", "s3://bucket/../other", "s3://ab"),
        *("s3://Perf", "s3://perf//x", "s3://perf?x=1", "gs://perf", "s3://-ab"),
    ],
)
def test_a_bucket_that_is_written_wrongly(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("FOURNOS_HISTORY_BLOBS", value)
    with pytest.raises(ValidationError) as caught:
        StoreSettings()
    (problem,) = caught.value.errors()
    assert problem["loc"] == ("blobs",)
    assert "write it as s3://bucket/prefix; credentials have variables" in problem["msg"]
    assert "hunter2" not in problem["msg"]
