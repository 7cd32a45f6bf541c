"""Settings of the kinds that are queued by configuration (FOURNOS_FRAMEWORKS_… environment variables)."""

from __future__ import annotations

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from fournos.systems.frameworks.kinds import Framework, load


class FrameworkSettings(BaseSettings):
    """Every field is one variable: `FOURNOS_FRAMEWORKS_` + the field's name in capitals."""

    model_config = SettingsConfigDict(env_prefix="FOURNOS_FRAMEWORKS_", extra="ignore", populate_by_name=True)

    file: str = Field("", description="YAML file that describes further kinds")

    @field_validator("file")
    @classmethod
    def _is_a_table(cls, value: str) -> str:
        load(value)
        return value

    def frameworks(self) -> tuple[Framework, ...]:
        """Returns the kinds that are queued."""
        return load(self.file)
