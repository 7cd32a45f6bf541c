"""Settings of the history's store (FOURNOS_HISTORY_… environment variables)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

_MB = 1_000_000


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
    retention_days: Annotated[int, Field(ge=0)] = Field(
        90, description="Days after its end in which a run stays; 0: for ever"
    )
    retention_runs: Annotated[int, Field(ge=0)] = Field(
        100_000, description="Ended runs that stay of each namespace, the newest ones; 0: all"
    )
    retention_mb: Annotated[int, Field(ge=0)] = Field(
        50_000,
        description="Megabytes of documents, logs and artifacts that stay of each namespace's ended runs, "
        "those of the newest ones; 0: all",
    )

    @property
    def database_url(self) -> str:
        return self.url or f"sqlite:///{Path(self.directory) / 'history.db'}"

    @property
    def blobs(self) -> Path:
        """The directory of logs and artifacts."""
        return Path(self.directory) / "blobs"

    @property
    def longest_age(self) -> timedelta | None:
        return timedelta(days=self.retention_days) if self.retention_days else None

    @property
    def most_bytes(self) -> int | None:
        return self.retention_mb * _MB or None
