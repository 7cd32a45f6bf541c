"""The kinds that are queued by configuration, as data: PipelineRun, and those that a file adds or replaces.

A row of the table defines how an object is held and released, what it requests, and how to detect that it
runs and has ended.  The protocol with Kueue is the same for all kinds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from fournos.api.kinds import RUN_POD_TEMPLATE
from fournos.engine.api.values import parse_quantity
from fournos.engine.kube.resource import Resource
from fournos.engine.queueing.podsets import REQUESTS_ANNOTATION
from fournos.engine.queueing.workload import parse_name

HELD_ANNOTATION: Final = "fournos.dev/held"
HELD_BY_QUEUE: Final = "queue"
"""The value of the annotation for a hold that the queue has set.

For kinds whose users may hold an object themselves, the queue releases only a hold with this annotation.
"""
STOPPED_ANNOTATION: Final = "fournos.dev/stopped"
"""Why the queue has ended an object for good: "Reason: message"."""
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
TEXT_MAX: Final = 512


# --- one row of the table ------------------------------------------------------------------------------

_PATH: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*")


def _checked_path(text: str) -> str:
    if not _PATH.fullmatch(text):
        raise ValueError(f"{text!r} is not a path: write field names with dots between them, as spec.suspend")
    return text


FieldPath = Annotated[str, AfterValidator(_checked_path)]
"""A dotted path into an object, such as "spec.taskRunTemplate.podTemplate"."""


def _checked_name(text: str) -> str:
    parse_name(text)
    return text


Name = Annotated[str, AfterValidator(_checked_name)]


class CamelModel(BaseModel):
    """A model with camelCase field names, as in Kubernetes; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class When(CamelModel):
    """A predicate: the path has one of the values or, without values, any value that is not empty."""

    path: FieldPath
    values: tuple[Any, ...] = ()

    def holds(self, found: Any) -> bool:
        return found in self.values if self.values else bool(found)


class Hold(CamelModel):
    """How an object is held before it runs, and released."""

    path: FieldPath
    held: Any = True
    released: Any = False
    """The value after release; None removes the field."""
    only_at_creation: bool = False
    """True if the kind accepts the hold only at creation, and then no change of its spec but the release."""
    users_too: bool = False
    """True if users hold objects by the same field for their own reasons.

    Only a hold with the queue's annotation is then released.
    """


class Stop(CamelModel):
    """How an object that cannot be held again is ended."""

    path: FieldPath
    value: Any


class PodSetRule(CamelModel):
    """A pod template inside the object."""

    name: str = Field("main", pattern=r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", max_length=63)
    template: FieldPath
    count: FieldPath | None = None
    """The path of the number of pods; 1 if it is not set or has no value."""


class RequestRule(CamelModel):
    """The requests of an object without pod templates: its annotation, else the default."""

    annotation: str = REQUESTS_ANNOTATION
    default: dict[str, str | int] = Field(default_factory=dict)
    pod_template: FieldPath | None = None
    """The path of nodeSelector and tolerations for all pods of the object, if the kind has one."""

    @field_validator("default")
    @classmethod
    def _are_quantities(cls, value: dict[str, str | int]) -> dict[str, str | int]:
        for amount in value.values():
            parse_quantity(amount)
        return value


class FinishRule(CamelModel):
    """One rule that detects the end of an object: by a condition or by a field."""

    condition: str = ""
    means: Literal["both", "succeeded", "failed"] = "both"
    """The meaning of a condition.

    both: True is success and False is failure.  Otherwise only True is an end.
    """
    path: FieldPath | None = None
    succeeded: tuple[Any, ...] = ()
    failed: tuple[Any, ...] = ()
    message: FieldPath | None = None

    @model_validator(mode="after")
    def _is_one_of_them(self) -> FinishRule:
        if bool(self.condition) == bool(self.path):
            raise ValueError("a rule of finished needs either condition or path")
        if self.path and not (self.succeeded or self.failed):
            raise ValueError(f"what at {self.path} means the end? Write succeeded, failed, or both")
        return self


class Framework(CamelModel):
    """The description of one kind."""

    name: Name
    plural: str = Field(default="", pattern=r"([a-z]([-a-z0-9]*[a-z0-9])?)?")
    """The name of the resource type on the API server; "" for the regular plural."""
    hold: Hold
    stop: Stop | None = None
    """None: the object is held again, and continues when it is released."""
    pod_sets: tuple[PodSetRule, ...] = Field(default=(), max_length=8)
    requests: RequestRule = RequestRule()
    """Used if there are no podSets."""
    finished: tuple[FinishRule, ...] = Field(min_length=1)
    active: When | None = None
    """None: the object uses its quota from its release to its end."""
    ready: When | None = None
    """None: the object is ready once it is released."""
    managed_by: FieldPath | None = "spec.managedBy"

    @model_validator(mode="after")
    def _fits_together(self) -> Framework:
        if self.hold.only_at_creation and self.stop is None:
            raise ValueError(f"{self.name}: hold.onlyAtCreation needs stop: it cannot be held a second time")
        names = [one.name for one in self.pod_sets]
        if len(set(names)) != len(names):
            raise ValueError(f"{self.name}: give each of podSets a name of its own")
        return self

    @property
    def resource(self) -> Resource:
        return parse_name(self.name, plural=self.plural)

    @property
    def default_requests(self) -> dict[str, str | int]:
        """Returns the default requests: one of the resource that is named like the object's resource type."""
        return self.requests.default or {f"{self.resource.group}/{self.resource.plural}": 1}

    def paths(self) -> Iterator[str]:
        """Yields the paths that decisions read of an object, besides its metadata."""
        yield from (self.hold.path, "status.conditions")
        yield from (one.template for one in self.pod_sets)
        yield from (one.count for one in self.pod_sets if one.count)
        yield from (one.path for one in (self.stop, self.active, self.ready) if one is not None)
        yield from (path for rule in self.finished for path in (rule.path, rule.message) if path)
        yield from (path for path in (self.requests.pod_template, self.managed_by) if path)


# --- the table -----------------------------------------------------------------------------------------

# Tekton accepts "PipelineRunPending" only at creation, and afterwards no change of the spec except of this
# field.  Users hold runs by it, too.  A run that has started can be cancelled, but not suspended.
PIPELINE_RUN: Final = Framework(
    name="PipelineRun.v1.tekton.dev",
    hold=Hold(
        path="spec.status",
        held="PipelineRunPending",
        released=None,
        only_at_creation=True,
        users_too=True,
    ),
    stop=Stop(path="spec.status", value="Cancelled"),
    requests=RequestRule(pod_template=RUN_POD_TEMPLATE),
    finished=(FinishRule(condition="Succeeded"),),
    ready=When(path="status.startTime"),
)
BUILT_IN: Final[tuple[Framework, ...]] = (PIPELINE_RUN,)


class TableError(ValueError):
    """A file that cannot be used; the message has the position and the reason."""


def load(file: str) -> tuple[Framework, ...]:
    """Returns the built-in kinds and those of the YAML file ("" for none), which may replace built-in ones.

    Raises TableError.
    """
    frameworks = {_kind(one): one for one in BUILT_IN}
    if not file:
        return tuple(frameworks.values())
    try:
        body = yaml.safe_load(Path(file).read_text(encoding="utf-8")) or {}
    except (OSError, yaml.YAMLError) as error:
        raise TableError(f"{file} cannot be read: {error}") from None
    rows = body.get("frameworks") if isinstance(body, dict) else None
    if not isinstance(rows, list):
        raise TableError(f"{file} has no list of frameworks")
    listed: set[tuple[str, str]] = set()
    for index, row in enumerate(rows):
        framework = _parsed(row, f"{file}: frameworks[{index}]")
        if _kind(framework) in listed:
            raise TableError(f"{file}: frameworks[{index}]: {framework.name} stands there twice")
        listed.add(_kind(framework))
        frameworks[_kind(framework)] = framework
    return tuple(frameworks.values())


def _kind(framework: Framework) -> tuple[str, str]:
    return framework.resource.group, framework.resource.kind


def _parsed(row: Any, where: str) -> Framework:
    try:
        return Framework.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        at = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in first["loc"])
        raise TableError(f"{where}{at}: {first['msg'].removeprefix('Value error, ')}") from None
