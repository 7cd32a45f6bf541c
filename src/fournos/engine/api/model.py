"""The base of all typed resources: how models read JSON, and how fields are described.

The models are only for reading.  A model is never written back to an API server, because fields of a newer
version would be lost.  Limits (lengths, patterns, bounds) are only in the schema, so that an object stored
before a limit existed can still be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

CRD_DEFAULT = "x-crd-default"
"""Schema key of a field whose default the API server sets.

Without it the reader decides on the default, so that a setting of the operator can change it.
"""


class Model(BaseModel):
    """Base of all models: JSON names in camelCase, unknown fields ignored, immutable."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Returns itself, as it is immutable: pydantic copies a default that holds a dict at each reading."""
        return self


def described(
    description: str,
    default: Any = None,
    *,
    crd_default: bool = False,
    list_type: Literal["atomic", "map"] | None = None,
    list_map_keys: Sequence[str] = (),
    **schema: Any,
) -> Any:
    """Returns an optional field.  `schema`: JSON Schema keywords, which limit writing but not reading."""
    extra = dict(schema)
    if crd_default:
        extra[CRD_DEFAULT] = True
    if list_type:
        extra["x-kubernetes-list-type"] = list_type
    if list_map_keys:
        extra["x-kubernetes-list-map-keys"] = list(list_map_keys)
    return Field(default=default, description=description, json_schema_extra=extra)


class StatusCondition(Model):
    """One fact about an object, by type: the shape of every `status.conditions` of ours."""

    type: str = Field(description="Name of the fact.")
    status: str = Field(description="True, False or Unknown.")
    last_transition_time: datetime | None = described("When the status last changed.")
    reason: str | None = described("The cause in one word.")
    message: str | None = described("The cause in a sentence.")
    observed_generation: int | None = described("Generation of the spec that it speaks of.", format="int64")
