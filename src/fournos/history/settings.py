"""Settings of the history, read from FOURNOS_HISTORY_… environment variables."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from fournos.api.kinds import APPWRAPPER, FOURNOS_JOB, MINICLUSTER
from fournos.engine.kube.resource import Resource
from fournos.engine.queueing.workload import BadNameError, parse_name
from fournos.engine.runtime.webhook.registration import Service
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
        "fournos-history", min_length=1, description="Namespace of the recorder itself (its lease)"
    )
    jobs_namespace: str = Field(
        "", description="Namespace whose objects are recorded; empty: those of all namespaces"
    )
    kinds: Annotated[tuple[str, ...], NoDecode] = Field(
        tuple(BUILT_IN),
        description="The kinds that are recorded, with commas between them: FournosJob, AppWrapper, "
        "MiniCluster, and any other as Kind.version.group",
    )
    interval_sec: Annotated[float, Field(ge=0)] = Field(
        2.0,
        description="How soon a change of phase is written after the write before; other changes, such "
        "as of its tasks, after 15 times that, its end at once (seconds)",
    )
    port: Annotated[int, Field(ge=0, le=65535)] = Field(
        0, description="Port that serves the API by https; 0: none"
    )
    service: str = Field(
        "", description="Service of the API in that namespace, whose names are in its certificate"
    )
    certificate_secret: str = Field(
        "fournos-history-cert", min_length=1, description="Secret of the API's certificate in that namespace"
    )
    artifact_files: Annotated[int, Field(ge=0)] = Field(
        1000, description="Artifacts that are kept of one run; more are refused"
    )
    artifact_mb: Annotated[int, Field(ge=0)] = Field(
        2000, description="Megabytes of artifacts that are kept of one run; more are refused"
    )
    log_mb: Annotated[int, Field(ge=0)] = Field(
        100,
        description="Megabytes of logs that are stored of one run, beside the end of each log; 0: no logs "
        "are stored",
    )
    log_deadline_sec: Annotated[float, Field(ge=0)] = Field(
        300.0,
        description="How long `status.archivedAt` waits for the logs of an ended job at most (seconds)",
    )
    webhook_url_file: str = Field(
        "",
        description="File with the URL to which confirmed changes and silent series are sent, such as that "
        "of a mounted Secret; while it is not there, they are not sent",
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
    def hosts(self) -> tuple[str, ...]:
        """The names in the certificate of the API."""
        return Service(self.namespace, self.service).hosts if self.service else (socket.gethostname(),)

    @property
    def artifact_limits(self) -> ArtifactLimits:
        return ArtifactLimits(self.artifact_files, self.artifact_mb * 1_000_000)

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
