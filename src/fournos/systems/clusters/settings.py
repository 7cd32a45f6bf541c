"""Settings of the cluster system, read from HEARTH_… environment variables (the Hearth README's table)."""

from __future__ import annotations

import re

from pydantic import AliasChoices, Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from fournos.engine.api.values import with_placeholder
from fournos.engine.runtime.part import LogLevel, Seconds


class ClusterSettings(BaseSettings):
    """Every field is one variable: `HEARTH_` + the field's name in capitals."""

    model_config = SettingsConfigDict(env_prefix="HEARTH_", extra="ignore", populate_by_name=True)

    namespace: str = Field("hearth", min_length=1, description="Namespace for FournosCluster CRs")
    secrets_namespace: str = Field(
        "psap-secrets",
        min_length=1,
        validation_alias=AliasChoices("HEARTH_SECRETS_NAMESPACE", "FOURNOS_SECRETS_NAMESPACE"),
        description="Namespace containing kubeconfig secrets; without it, FOURNOS_SECRETS_NAMESPACE counts",
    )
    execution_namespace: str = Field(
        "psap-automation",
        min_length=1,
        description="Namespace where FournosJobs run (sentinel jobs created here)",
    )
    kubeconfig_secret_pattern: str = Field(
        "kubeconfig-{cluster}",
        validation_alias="FOURNOS_KUBECONFIG_SECRET_PATTERN",
        description="Pattern of the names of kubeconfig Secrets, as of the operator of jobs",
    )
    kueue_cluster_queue_name: str = Field("fournos-queue", description="Kueue ClusterQueue to give quotas to")
    gpu_resource_prefix: str = Field(
        "fournos/gpu-",
        validation_alias="FOURNOS_GPU_RESOURCE_PREFIX",
        description="Resource name prefix for GPU types, as of the operator of jobs",
    )
    reconcile_interval_sec: Seconds = Field(
        30.0,
        description="Timer reconciliation interval: every cluster is probed so often (seconds)",
    )
    gpu_discovery_default_interval_sec: Seconds = Field(
        300.0,
        description="GPU discovery interval; changes that the nodes' watch shows are taken at once (seconds)",
    )
    gpu_discovery_timeout_sec: Seconds = Field(10.0, description="Target cluster API timeout (seconds)")
    log_level: LogLevel = "INFO"

    @field_validator("kubeconfig_secret_pattern")
    @classmethod
    def _names_cluster(cls, value: str) -> str:
        return with_placeholder(value, "cluster")

    def cluster_of(self, secret: str) -> str | None:
        """Returns the cluster name in a Secret's name; None if it does not match the pattern."""
        before, _, after = self.kubeconfig_secret_pattern.partition("{cluster}")
        found = re.fullmatch(f"{re.escape(before)}(.+){re.escape(after)}", secret)
        return found[1] if found else None
