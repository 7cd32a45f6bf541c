"""Settings of the MultiKueue adapter, read from FOURNOS_MULTIKUEUE_… environment variables.

Names and defaults follow the section multiKueue of Kueue's Configuration where that has the same setting.
"""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AliasChoices, Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from fournos.engine.kube.resource import Resource
from fournos.engine.runtime.settings_types import Seconds
from fournos.systems.multikueue.config import MultiKueueConfiguration, read
from fournos.systems.multikueue.kinds import parse_all
from fournos.systems.multikueue.names import CONTROLLER

_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DISPATCHERS = {
    "kueue.x-k8s.io/multikueue-dispatcher-all-at-once": "all-at-once",
    "kueue.x-k8s.io/multikueue-dispatcher-incremental": "incremental",
}


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
        "origin, workerLostTimeout, dispatcherName, stepSize; the other variables here come first",
    )
    controller_name: str = Field(
        CONTROLLER, min_length=1, description="controllerName of the AdmissionChecks that are this adapter's"
    )
    namespace: str = Field("fournos-system", min_length=1, description="Namespace of the lease")
    kueue_namespace: str = Field(
        "kueue-system", min_length=1, description="Kueue's namespace, where workers' kubeconfig Secrets are"
    )
    origin: str = Field(
        "",
        description="Value of the label kueue.x-k8s.io/multikueue-origin on all that is made on workers, "
        "`fournos` unless set here or in the config file. Must differ between managers that share a worker.",
    )
    dispatcher: Literal["", "all-at-once", "incremental"] = Field(
        "", description="Which workers are asked for quota: all (the default), or a few more at a time"
    )
    incremental_step: Annotated[int, Field(ge=0)] = Field(
        0,
        description="How many more workers the incremental dispatcher asks each time; "
        "0: what the config file says (stepSize), else 3",
    )
    incremental_interval_sec: Seconds = Field(
        300.0, description="How long the incremental dispatcher waits before it asks more (seconds)"
    )
    worker_lost_timeout_sec: Annotated[float, Field(ge=0)] = Field(
        0.0,
        description="How long a worker may be unreachable before its jobs are queued again (seconds); "
        "0: what the config file says, else 900",
    )
    stop_grace_sec: Seconds = Field(
        300.0,
        description="How long an evicted job may take to stop on its worker before it is deleted (seconds)",
    )
    keep_finished_sec: Annotated[float, Field(ge=0)] = Field(
        0.0,
        description="How long a finished job stays on its worker, for its logs (seconds); it holds no quota",
    )
    probe_interval_sec: Seconds = Field(
        15.0, description="How often each worker's API server is probed (seconds)"
    )
    probe_timeout_sec: Seconds = Field(
        10.0, description="How long an answer of a worker's API server may take (seconds)"
    )
    requests_per_second: Annotated[float, Field(gt=0)] = Field(
        200.0, description="Rate limit of the requests to one worker"
    )
    gc_interval_sec: Seconds = Field(
        60.0,
        description="How often workers are looked through for what has no Workload here any more (seconds)",
    )
    clusters_namespace: str = Field(
        "",
        description="Namespace of the FournosClusters, such as hearth; those labelled "
        "fournos.dev/multikueue-worker=true become workers. Empty: none are looked at.",
    )
    secrets_namespace: str = Field(
        "psap-secrets",
        validation_alias=AliasChoices("FOURNOS_MULTIKUEUE_SECRETS_NAMESPACE", "FOURNOS_SECRETS_NAMESPACE"),
        description="Namespace of the FournosClusters' kubeconfig Secrets; without it, "
        "FOURNOS_SECRETS_NAMESPACE counts",
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
        assert self.the_dispatcher and self.worker_lost
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
    def the_dispatcher(self) -> str:
        if self.dispatcher or not self.file.dispatcher:
            return self.dispatcher or "all-at-once"
        dispatcher = _DISPATCHERS.get(self.file.dispatcher)
        if dispatcher is None:
            raise ValueError(
                f"dispatcherName '{self.file.dispatcher}' does not run here; use {' or '.join(_DISPATCHERS)}"
            )
        return dispatcher

    @property
    def the_step(self) -> int:
        return self.incremental_step or self.file.step or 3

    @property
    def worker_lost(self) -> float:
        """Seconds."""
        return self.worker_lost_timeout_sec or self.file.worker_lost_timeout or 900.0
