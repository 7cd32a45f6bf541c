"""The values of a FournosJob's spec that have fields, or a schema, of their own."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, WithJsonSchema

from fournos.engine.api.crd import Model, described

MAX_REPEATS: Final = 5
"""Maximum number of reruns of a job."""
MAX_ALTERNATIVES: Final = 4
"""Maximum number of other GPUs that a job accepts."""

Opaque = Annotated[
    dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
]
Engine = Annotated[
    dict[str, Any],
    # As a map, its keys are visible to rules and its values can at least be compared.  Two objects of unknown
    # fields are equal in CEL if they have equally many fields and none in common.
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": 64,
            "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True, "nullable": True},
        }
    ),
]
Name = Annotated[str, WithJsonSchema({"type": "string", "maxLength": 253})]


def param_value(value: object) -> Any:
    """Returns the value of a parameter with numbers and booleans as JSON has them, and a list as a tuple.

    YAML has no quotes around them.  What is neither a text nor a list of texts is returned as it is.
    """
    return tuple(map(_text, value)) if isinstance(value, list | tuple) else _text(value)


def _text(value: object) -> object:
    return json.dumps(value) if isinstance(value, bool | int | float) else value


ParamValue = Annotated[
    # Any: a structural schema has no type for "a string or a list", so the API server stores what is neither.
    # It is refused with the Pipeline's types; if the spec could not be read, a job could not be stopped.
    Any,
    BeforeValidator(param_value),
    WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True}),
]
EnvValue = Annotated[str, WithJsonSchema({"type": "string", "maxLength": 32768})]


class Gpus(Model):
    """GPUs of one type."""

    gpu_type: str | None = described(
        "Short name of the GPU model, such as a100 or h200, without the resource prefix.", maxLength=253
    )
    gpu_count: int | None = described("Number of GPUs, at least 1.", minimum=1, format="int32")

    def to_json(self) -> dict[str, Any]:
        """Returns type and number, as the status of a job has them."""
        return self.model_dump(include={"gpu_type", "gpu_count"}, by_alias=True, exclude_none=True)


class Hardware(Gpus):
    """GPUs of one type, and others that will do."""

    alternatives: tuple[Gpus, ...] = described(
        "Other GPUs that will do, the preferred ones first. A waiting job asks for the first of all that are "
        "free; status.resolved.hardware has those that it was admitted with.",
        (),
        maxItems=MAX_ALTERNATIVES,
    )

    @property
    def choices(self) -> tuple[Gpus, ...]:
        """What the job accepts, in the order of preference; empty if type or number is missing."""
        return (self, *self.alternatives) if self.gpu_type and self.gpu_count else ()


class Timeouts(Model):
    """Time limits, as Go durations such as 1h30m or 25h0m0s."""

    pipeline: str | None = described("Limit of the whole PipelineRun.", maxLength=64)
    tasks: str | None = described("Limit of the tasks before the finally tasks.", maxLength=64)
    finally_: str | None = Field(
        default=None,
        alias="finally",
        description="Limit of the finally tasks.",
        json_schema_extra={"maxLength": 64},
    )
    pending: str | None = described(
        "Limit of the wait for admission; the job fails when it has passed.", maxLength=64
    )


class Retry(Model):
    """What happens after a failed run."""

    limit: int = described(
        "How many more runs a failed one may be followed by. Evictions do not count.",
        0,
        minimum=0,
        maximum=10,
        format="int32",
    )
    backoff: str | None = described(
        "Wait before the next run, as a Go duration such as 30s; it doubles with every failure.",
        maxLength=64,
    )


class Confirm(Model):
    """What happens when the history suspects a regression."""

    repeats: int = described(
        "How many reruns measure the results again before anybody is alerted; 0: none.",
        0,
        minimum=0,
        maximum=MAX_REPEATS,
        format="int32",
    )
