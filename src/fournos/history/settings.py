"""Settings of the history, read from FOURNOS_HISTORY_… environment variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from fournos.api.kinds import APPWRAPPER, FOURNOS_JOB, MINICLUSTER
from fournos.engine.kube.resource import Resource
from fournos.engine.queueing.workload import BadNameError, parse_name
from fournos.history.artifacts import ArtifactLimits

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


BUILT_IN: Final[Mapping[str, Resource]] = {one.kind: one for one in (FOURNOS_JOB, APPWRAPPER, MINICLUSTER)}
"""The kinds that are recorded by default."""


class HistorySettings(StoreSettings):
    """Every field is one variable: `FOURNOS_HISTORY_` + the field's name in capitals."""

    model_config = SettingsConfigDict(env_prefix="FOURNOS_HISTORY_", extra="ignore", populate_by_name=True)

    namespace: str = Field(
        "fournos-history",
        min_length=1,
        validation_alias="FOURNOS_CONTROLLER_NAMESPACE",
        description="Namespace of the recorder itself: of its Lease, its Service and its certificate",
    )
    jobs_namespace: str = Field(
        "", description="Namespace whose objects are recorded; empty: those of all namespaces"
    )
    kinds: Annotated[tuple[str, ...], NoDecode] = Field(
        tuple(BUILT_IN),
        description="The kinds that are recorded, with commas between them: FournosJob, AppWrapper, "
        "MiniCluster, and any other as Kind.version.group",
    )
    port: Annotated[int, Field(ge=0, le=65535)] = Field(
        0, description="Port that serves the API by https; 0: none"
    )
    artifact_mb: Annotated[int, Field(ge=0)] = Field(
        2000,
        description="Megabytes of artifacts that are kept of one run, in at most 1,000 files; more are "
        "refused",
    )
    log_mb: Annotated[int, Field(ge=0)] = Field(
        100,
        description="Megabytes of logs that are stored of one run, beside the end of each log; 0: no logs "
        "are stored",
    )
    webhook_url_file: str = Field(
        "",
        description="File with the URL to which confirmed changes are sent, such as that of a mounted "
        "Secret; while it is not there, they are not sent",
    )
    page_url: str = Field(
        "", description="Address of the page (deploy/web), to which messages link; empty: they do not"
    )

    @field_validator("kinds", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(name.strip() for name in value.split(",") if name.strip())
        return value

    @field_validator("kinds")
    @classmethod
    def _are_kinds(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError(f"names no kind: write one of {', '.join(BUILT_IN)}, or Kind.version.group")
        for name in value:
            _resource(name)
        return tuple(dict.fromkeys(value))

    @property
    def artifact_limits(self) -> ArtifactLimits:
        return ArtifactLimits(bytes=self.artifact_mb * 1_000_000)

    def resources(self) -> tuple[Resource, ...]:
        """Returns the recorded resource types."""
        return tuple(map(_resource, self.kinds))


def _resource(name: str) -> Resource:
    if name in BUILT_IN:
        return BUILT_IN[name]
    try:
        return parse_name(name)
    except BadNameError as error:
        raise ValueError(str(error)) from None
