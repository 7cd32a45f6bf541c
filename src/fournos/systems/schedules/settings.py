"""Settings of the schedules, read from FOURNOS_SCHEDULES_… environment variables."""

from __future__ import annotations

from pydantic import AliasChoices, Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class ScheduleSettings(BaseSettings):
    """Every field is one variable: `FOURNOS_SCHEDULES_` + the field's name in capitals."""

    model_config = SettingsConfigDict(env_prefix="FOURNOS_SCHEDULES_", extra="ignore", populate_by_name=True)

    namespace: str = Field(
        min_length=1,
        validation_alias=AliasChoices("FOURNOS_NAMESPACE", "FOURNOS_WORKLOAD_NAMESPACE"),
        description="Namespace of schedules and jobs, as of the operator",
    )
    archived_first: bool = Field(
        False,
        validation_alias="FOURNOS_HISTORY_ENABLED",
        description="Whether spec.historyLimits deletes only jobs that the history has recorded",
    )
