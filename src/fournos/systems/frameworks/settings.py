"""Settings of the kinds that are queued by configuration (FOURNOS_FRAMEWORKS_… environment variables)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from fournos.systems.frameworks.kinds import Framework, chosen, load


class FrameworkSettings(BaseSettings):
    """Every field is one variable: `FOURNOS_FRAMEWORKS_` + the field's name in capitals."""

    model_config = SettingsConfigDict(env_prefix="FOURNOS_FRAMEWORKS_", extra="ignore", populate_by_name=True)

    file: str = Field("", description="YAML file that describes further kinds")
    kinds: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="The kinds that are queued, as Kind.version.group with commas between them; "
        "without any, all that are known",
    )

    @field_validator("kinds", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(name.strip() for name in value.split(",") if name.strip())
        return value

    @field_validator("file")
    @classmethod
    def _is_a_table(cls, value: str) -> str:
        load(value)
        return value

    @model_validator(mode="after")
    def _are_known(self) -> FrameworkSettings:
        self.frameworks()
        return self

    def frameworks(self) -> tuple[Framework, ...]:
        """Returns the kinds that are queued."""
        return chosen(load(self.file), self.kinds)
