"""The description of a kind that is queued by configuration: one row of the table, as in its file.

A row defines how an object is held and released, what it requests, and how to detect that it runs and has
ended.  The protocol with Kueue is the same for all kinds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel

from fournos.engine.api.values import parse_quantity
from fournos.engine.kube.resource import Resource
from fournos.engine.queueing.kind_names import parse_name
from fournos.engine.queueing.requests import REQUESTS_ANNOTATION

_PATH: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*")


def _checked_path(text: str) -> str:
    if not _PATH.fullmatch(text):
        raise ValueError(f"{text!r} is not a path: write field names with dots between them, as spec.suspend")
    return text


Path = Annotated[str, AfterValidator(_checked_path)]
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

    path: Path
    values: tuple[Any, ...] = ()

    def holds(self, found: Any) -> bool:
        return found in self.values if self.values else bool(found)


class Hold(CamelModel):
    """How an object is held before it runs, and released."""

    path: Path
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

    path: Path
    value: Any


class PodSetRule(CamelModel):
    """A pod template inside the object."""

    name: str = Field("main", pattern=r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", max_length=63)
    template: Path
    count: Path | None = None
    """The path of the number of pods; 1 if it is not set or has no value."""


class RequestRule(CamelModel):
    """The requests of an object without pod templates: its annotation, else the default."""

    annotation: str = REQUESTS_ANNOTATION
    default: dict[str, str | int] = Field(default_factory=dict)
    pod_template: Path | None = None
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
    path: Path | None = None
    succeeded: tuple[Any, ...] = ()
    failed: tuple[Any, ...] = ()
    message: Path | None = None

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
    managed_by: Path | None = "spec.managedBy"
    labels_to_copy: tuple[str, ...] = ()
    """Labels that are copied to the object's Workloads."""

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
