"""Settings of the AppWrapper system (FOURNOS_APPWRAPPER_… environment variables).

Defaults and bounds are those that the AppWrapper documentation gives its annotations.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from fournos.engine.api.values import parse_duration


class AppWrapperSettings(BaseSettings):
    """Every field is one variable: `FOURNOS_APPWRAPPER_` + the field's name in capitals."""

    model_config = SettingsConfigDict(env_prefix="FOURNOS_APPWRAPPER_", extra="ignore", populate_by_name=True)

    namespace: str = Field(
        "appwrapper-system", min_length=1, description="Namespace of the operator itself (its lease)"
    )
    workloads: Literal["own", "kueue"] = Field(
        "kueue",
        description="Who makes the Workloads: Kueue's built-in AppWrapper integration, or this operator "
        "(Kueue then lists AppWrapper under externalFrameworks)",
    )
    manage_jobs_without_queue_name: bool = Field(
        True,
        description="Kueue's setting of this name, where this operator makes the Workloads: AppWrappers "
        "without a queue wait until they have one; false: they run at once, without quota",
    )
    default_queue_name: str = Field("", description="Queue of AppWrappers that name none")
    user_rbac_admission_check: bool = Field(
        True, description="Refuse AppWrappers whose user may not create the wrapped resources"
    )
    scheduler_name: str = Field("", description="Scheduler of pods that name none")
    admission_grace: str = Field("1m", description="Time for all pods to appear")
    warmup_grace: str = Field("5m", description="Time for all pods to get ready")
    failure_grace: str = Field("1m", description="Time that failed pods are tolerated")
    retry_pause: str = Field("90s", description="Pause between a reset and the next try")
    retry_limit: Annotated[int, Field(ge=0)] = Field(3, description="Resets before an AppWrapper fails")
    forceful_deletion_grace: str = Field("10m", description="Time before what is deleted is deleted by force")
    grace_maximum: str = Field("24h", description="Ceiling of every grace period")
    success_ttl: str = Field("168h", description="How long resources are kept after success, at most")
    inject_anti_affinities: bool = Field(True, description="Keep pods away from nodes marked as unhealthy")
    monitor_nodes: bool = Field(True, description="Move AppWrappers away from nodes marked for eviction")
    prefer_no_schedule_weight: Annotated[int, Field(ge=1, le=100)] = Field(
        50, description="Weight of keeping away from nodes with a warning"
    )
    autopilot_resources: tuple[str, ...] = Field(
        ("nvidia.com/gpu",), description="Resources whose health the label autopilot.ibm.com/gpuhealth shows"
    )

    @field_validator(
        "admission_grace",
        "warmup_grace",
        "failure_grace",
        "retry_pause",
        "forceful_deletion_grace",
        "grace_maximum",
        "success_ttl",
    )
    @classmethod
    def _is_duration(cls, value: str) -> str:
        if parse_duration(value).total_seconds() < 0:
            raise ValueError("must not be negative")
        return value

    @model_validator(mode="after")
    def _in_order(self) -> AppWrapperSettings:
        if parse_duration(self.admission_grace) > parse_duration(self.warmup_grace):
            raise ValueError("admission_grace must not be longer than warmup_grace")
        return self
