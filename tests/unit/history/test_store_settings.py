"""The settings of the history's store."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from fournos.history.blobs import S3Location
from fournos.history.store.retention import RetentionLimits
from fournos.history.store_settings import StoreSettings


def test_without_settings_runs_expire_and_the_database_is_a_file() -> None:
    settings = StoreSettings()
    assert settings.database_url == "sqlite:////var/lib/fournos/history.db"
    assert settings.blob_place == Path("/var/lib/fournos/blobs")
    assert RetentionLimits.of(settings) == RetentionLimits(timedelta(days=90), 100_000, 50_000_000_000)


def test_each_limit_can_be_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAYS", "RUNS", "MB"):
        monkeypatch.setenv(f"FOURNOS_HISTORY_RETENTION_{name}", "0")
    assert RetentionLimits.of(StoreSettings()) == RetentionLimits(None, None, None)


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
    assert settings.database_url == "sqlite:////data/history.db"
    assert settings.blob_place == Path("/data/blobs")


def test_each_limit_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RETENTION_DAYS", "7"), ("RETENTION_RUNS", "5"), ("RETENTION_MB", "3")):
        monkeypatch.setenv(f"FOURNOS_HISTORY_{name}", value)
    assert RetentionLimits.of(StoreSettings()) == RetentionLimits(timedelta(days=7), 5, 3_000_000)


def test_the_blobs_are_in_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "BLOBS": "s3://perf-history/fournos/prod",
        "S3_ENDPOINT": "https://minio.example.com:9000/",
        "S3_REGION": "eu-central-1",
        "S3_PATH_STYLE": "false",
        "S3_CA_FILE": "/etc/ca.crt",
    }.items():
        monkeypatch.setenv(f"FOURNOS_HISTORY_{name}", value)
    place = StoreSettings().blob_place
    assert place == S3Location(
        "perf-history",
        "fournos/prod",
        endpoint="https://minio.example.com:9000",
        region="eu-central-1",
        path_style=False,
        ca_file="/etc/ca.crt",
    )
    assert str(place) == "s3://perf-history/fournos/prod at https://minio.example.com:9000"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("BLOBS", "s3://key:hunter2@bucket/x", "credentials have variables of their own"),
        ("BLOBS", "/var/lib/blobs", "write it as s3://bucket/prefix"),
        ("BLOBS", "s3://", "write it as s3://bucket/prefix"),
        ("BLOBS", "s3://bucket/../other", "the prefix has up to eight names"),
        ("S3_ENDPOINT", "https://key:hunter2@minio", "without a path and credentials"),
        ("S3_ENDPOINT", "minio:9000", "write it as https://host"),
        ("S3_ENDPOINT", "https://minio/bucket", "without a path and credentials"),
    ],
)
def test_a_bucket_that_is_written_wrongly(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(f"FOURNOS_HISTORY_{name}", value)
    with pytest.raises(ValidationError) as caught:
        StoreSettings()
    (problem,) = caught.value.errors()
    assert problem["loc"] == (name.lower(),)
    assert words in problem["msg"]
    assert "hunter2" not in problem["msg"]
