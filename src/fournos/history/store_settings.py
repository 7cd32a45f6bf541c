"""Settings of the history's store (FOURNOS_HISTORY_… environment variables)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

_BUCKET: Final = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_-][A-Za-z0-9._-]*)*/?")


class StoreSettings(BaseSettings):
    """Every field is one variable: `FOURNOS_HISTORY_` + the field's name in capitals."""

    model_config = SettingsConfigDict(env_prefix="FOURNOS_HISTORY_", extra="ignore")

    url: str = Field(
        "",
        repr=False,
        description="URL of the database, `postgresql://user@host/database` or `sqlite:////path/history.db`; "
        "without it, SQLite in FOURNOS_HISTORY_DIRECTORY",
    )
    directory: str = Field(
        "/var/lib/fournos",
        min_length=1,
        description="Directory of the logs and artifacts, and of SQLite's file; on a local volume",
    )
    blobs: str = Field(
        "",
        repr=False,
        description="Bucket of the logs and artifacts, `s3://bucket/prefix`, with the usual variables AWS_… "
        "for the server, the region and the credentials; empty: FOURNOS_HISTORY_DIRECTORY has them",
    )
    s3_ca_file: str = Field(
        "",
        description="File with certificates (PEM) that are trusted for the S3 server beside the public ones",
    )
    retention_days: Annotated[int, Field(ge=0)] = Field(
        90, description="Days after its end in which a run stays; 0: no limit"
    )
    retention_runs: Annotated[int, Field(ge=0)] = Field(
        100_000, description="Ended runs that stay of each namespace, the newest ones; 0: all"
    )
    namespace_mb: Annotated[int, Field(ge=0)] = Field(
        5_000,
        description="Megabytes of results, logs and artifacts that are kept of each namespace; more are "
        "refused; 0: no limit",
    )

    @field_validator("blobs")
    @classmethod
    def _is_a_bucket(cls, value: str) -> str:
        if value and not _BUCKET.fullmatch(value):
            raise ValueError("write it as s3://bucket/prefix; credentials have variables of their own")
        return value

    @property
    def database_url(self) -> str:
        return self.url or f"sqlite:///{Path(self.directory) / 'history.db'}"

    @property
    def blob_place(self) -> str:
        """The place of logs and artifacts: the URL of a bucket or a directory."""
        return self.blobs.rstrip("/") or str(Path(self.directory) / "blobs")

    @property
    def namespace_bytes(self) -> int:
        return self.namespace_mb * 1_000_000
