"""Settings of the MultiKueue adapter: Kueue's Configuration, and FOURNOS_MULTIKUEUE_… variables."""

from __future__ import annotations

from functools import cached_property
from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from fournos.engine.kube.resource import Resource
from fournos.systems.multikueue.config import MultiKueueConfiguration, parse_all, read_file

_ANSWER_SEC = 10.0
"""How long an answer of a worker's API server may take at most."""
_PROBES_BETWEEN_COLLECTIONS = 4


class MultiKueueSettings(BaseSettings):
    """Every field is one variable: `FOURNOS_MULTIKUEUE_` + the field's name in capitals."""

    model_config = SettingsConfigDict(env_prefix="FOURNOS_MULTIKUEUE_", extra="ignore", populate_by_name=True)

    config_file: str = Field(
        "",
        description="File with a Kueue Configuration, or a ConfigMap of one, whose section multiKueue is "
        "read: externalFrameworks, origin, workerLostTimeout, gcInterval",
    )
    kueue_namespace: str = Field(
        "kueue-system", min_length=1, description="Kueue's namespace, where workers' kubeconfig Secrets are"
    )

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if not self.kinds:
            raise ValueError(
                "no kinds: name them in multiKueue.externalFrameworks of the Kueue Configuration in "
                "FOURNOS_MULTIKUEUE_CONFIG_FILE"
            )
        return self

    @cached_property
    def file(self) -> MultiKueueConfiguration:
        return read_file(self.config_file)

    @cached_property
    def kinds(self) -> tuple[Resource, ...]:
        return parse_all(framework.name for framework in self.file.external_frameworks)

    @property
    def origin(self) -> str:
        return self.file.origin

    @property
    def worker_lost(self) -> float:
        """Seconds for which a worker may be unreachable before its jobs are queued again."""
        return self.file.worker_lost_timeout.total_seconds()

    @property
    def probe_interval(self) -> float:
        """Seconds between two probes of a worker's API server."""
        return self.collect_interval / _PROBES_BETWEEN_COLLECTIONS

    @property
    def probe_timeout(self) -> float:
        """Seconds."""
        return min(_ANSWER_SEC, self.probe_interval)

    @property
    def collect_interval(self) -> float:
        """Seconds between two looks for what has no Workload on the manager cluster any more."""
        return self.file.gc_interval.total_seconds() or 60.0
