"""Settings of the MultiKueue adapter, read from FOURNOS_MULTIKUEUE_… environment variables."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from fournos.engine.kube.resource import Resource
from fournos.engine.runtime.part import Seconds
from fournos.systems.multikueue.config import MultiKueueConfiguration, parse_all, read

_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_ANSWER_SEC = 10.0
"""How long an answer of a worker's API server may take at most."""
_PROBES_BETWEEN_COLLECTIONS = 4


class MultiKueueSettings(BaseSettings):
    """Every field is one variable: `FOURNOS_MULTIKUEUE_` + the field's name in capitals."""

    model_config = SettingsConfigDict(env_prefix="FOURNOS_MULTIKUEUE_", extra="ignore", populate_by_name=True)

    external_frameworks: str = Field(
        "",
        description="Kinds to take to workers, as Kind.version.group, separated by commas or spaces; "
        "Kind.version.group=plural if the plural is not the usual one. Those of the config file are added.",
    )
    config_file: str = Field(
        "",
        description="A Kueue Configuration whose multiKueue section is read, too: externalFrameworks, "
        "origin, workerLostTimeout; the other variables here come first",
    )
    kueue_namespace: str = Field(
        "kueue-system", min_length=1, description="Kueue's namespace, where workers' kubeconfig Secrets are"
    )
    origin: str = Field(
        "",
        description="Value of the label kueue.x-k8s.io/multikueue-origin on all that is made on workers, "
        "`fournos` unless set here or in the config file. Must differ between managers that share a worker.",
    )
    worker_lost_timeout_sec: Annotated[float, Field(ge=0)] = Field(
        0.0,
        description="How long a worker may be unreachable before its jobs are queued again (seconds); "
        "0: what the config file says, else 900",
    )
    probe_interval_sec: Seconds = Field(
        15.0,
        description="How often each worker's API server is probed (seconds); every fourth time workers are "
        "looked through for what has no Workload here any more",
    )

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if not _LABEL_VALUE.fullmatch(self.the_origin):
            raise ValueError(
                f"origin '{self.the_origin}' is not a label value: 63 letters, digits, -, _ or . at most"
            )
        if not self.kinds:
            raise ValueError(
                "no kinds: name them in FOURNOS_MULTIKUEUE_EXTERNAL_FRAMEWORKS, such as "
                "PipelineRun.v1.tekton.dev, or in externalFrameworks of FOURNOS_MULTIKUEUE_CONFIG_FILE"
            )
        return self

    @cached_property
    def file(self) -> MultiKueueConfiguration:
        if not self.config_file:
            return MultiKueueConfiguration()
        try:
            return read(Path(self.config_file).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{self.config_file} cannot be read: {type(error).__name__}") from None

    @cached_property
    def kinds(self) -> tuple[Resource, ...]:
        named = [name for name in re.split(r"[,\s]+", self.external_frameworks) if name]
        return parse_all([*named, *(name for name in self.file.frameworks if name not in named)])

    @property
    def the_origin(self) -> str:
        return self.origin or self.file.origin or "fournos"

    @property
    def worker_lost(self) -> float:
        """Seconds."""
        return self.worker_lost_timeout_sec or self.file.worker_lost_timeout or 900.0

    @property
    def probe_timeout(self) -> float:
        """Seconds."""
        return min(_ANSWER_SEC, self.probe_interval_sec)

    @property
    def collect_interval(self) -> float:
        """Seconds between two looks for what has no Workload on the manager cluster any more."""
        return _PROBES_BETWEEN_COLLECTIONS * self.probe_interval_sec
