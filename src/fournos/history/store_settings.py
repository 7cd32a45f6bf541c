"""Settings of the history's store (FOURNOS_HISTORY_… environment variables)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from fournos.history.blobs.location import S3Location, parse_endpoint, parse_url


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
        "for the credentials; empty: FOURNOS_HISTORY_DIRECTORY has them",
    )
    s3_endpoint: str = Field(
        "",
        repr=False,
        description="URL of the S3 server, such as `https://minio.example.com:9000`; empty: that of AWS",
    )
    s3_region: str = Field("", description="Region of the bucket; empty: AWS_REGION, else us-east-1")
    s3_path_style: bool = Field(
        True, description="Whether the bucket is in the path of a URL; false: in the name of the server"
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
    retention_mb: Annotated[int, Field(ge=0)] = Field(
        50_000,
        description="Megabytes of documents, logs and artifacts that stay of each namespace's ended runs, "
        "those of the newest ones; 0: all",
    )

    @field_validator("blobs")
    @classmethod
    def _is_a_bucket(cls, value: str) -> str:
        if value:
            parse_url(value)
        return value

    @field_validator("s3_endpoint")
    @classmethod
    def _is_a_server(cls, value: str) -> str:
        return parse_endpoint(value) if value else value

    @property
    def database_url(self) -> str:
        return self.url or f"sqlite:///{Path(self.directory) / 'history.db'}"

    @property
    def blob_place(self) -> Path | S3Location:
        """The place of logs and artifacts: a directory or a bucket."""
        return self.bucket(self.blobs) if self.blobs else Path(self.directory) / "blobs"

    def bucket(self, url: str) -> S3Location:
        """Returns the place of a URL, at the server of these settings.  Raises ValueError for a wrong one."""
        bucket, prefix = parse_url(url)
        return S3Location(
            bucket,
            prefix,
            endpoint=self.s3_endpoint,
            region=self.s3_region,
            path_style=self.s3_path_style,
            ca_file=self.s3_ca_file,
        )
