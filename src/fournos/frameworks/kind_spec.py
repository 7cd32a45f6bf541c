"""What is known about a kind that is queued by configuration: a row of the table, as its file has it.

A row says how an object of the kind is held and let go, what it asks for, and how one sees that it runs and
that it has ended.  Everything else, the whole conversation with Kueue, is the same for all kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel

from fournos.api.quantities import parse_quantity
from fournos.frameworks.paths import Path
from fournos.kube.resource import Resource
from fournos.queueing.kind_names import parse_name
from fournos.queueing.requests import REQUESTS_ANNOTATION


def _checked_name(text: str) -> str:
    parse_name(text)
    return text


Name = Annotated[str, AfterValidator(_checked_name)]


class Row(BaseModel):
    """Fields as Kubernetes writes them; what is not known is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class When(Row):
    """Holds where the path has one of the values; without values, where it has anything but nothing."""

    path: Path
    values: tuple[Any, ...] = ()

    def holds(self, found: Any) -> bool:
        return found in self.values if self.values else bool(found)


class Hold(Row):
    """How an object is kept from running, and let go."""

    path: Path
    held: Any = True
    released: Any = False
    """None takes the field away."""
    only_at_creation: bool = False
    """The kind takes the hold at creation only, and later changes of its spec not at all."""
    users_too: bool = False
    """Users hold objects in the same way for reasons of their own: only a hold that the queue's annotation
    goes with is released."""


class Stop(Row):
    """How an object that cannot be held again is ended."""

    path: Path
    value: Any


class PodSetRule(Row):
    """A pod template inside the object."""

    name: str = Field("main", pattern=r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", max_length=63)
    template: Path
    count: Path | None = None
    """Where the number of pods stands; without it, and where there is none, 1."""


class Requests(Row):
    """What an object without pod templates asks for: its annotation, else the default."""

    annotation: str = REQUESTS_ANNOTATION
    default: dict[str, str | int] = Field(default_factory=dict)
    pod_template: Path | None = None
    """Where it keeps nodeSelector and tolerations for all its pods, if it has such a place."""

    @field_validator("default")
    @classmethod
    def _are_quantities(cls, value: dict[str, str | int]) -> dict[str, str | int]:
        for amount in value.values():
            parse_quantity(amount)
        return value


class FinishRule(Row):
    """One way to see that an object has ended: a condition, or a field."""

    condition: str = ""
    means: Literal["both", "succeeded", "failed"] = "both"
    """Of a condition.  both: True is success and False is failure; else only True says it."""
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


class Framework(Row):
    """A kind."""

    name: Name
    plural: str = Field("", pattern=r"([a-z]([-a-z0-9]*[a-z0-9])?)?")
    """As the API server serves it; without it the usual one."""
    hold: Hold
    stop: Stop | None = None
    """None: it is held again, and goes on when it is let go."""
    pod_sets: tuple[PodSetRule, ...] = Field((), max_length=8)
    requests: Requests = Requests()
    """Where there are no podSets."""
    finished: tuple[FinishRule, ...] = Field(min_length=1)
    active: When | None = None
    """None: it uses its quota from its release to its end."""
    ready: When | None = None
    """None: it is ready once it is let go."""
    managed_by: Path | None = "spec.managedBy"
    pods_label: str = ""
    """Label on its pods with its name as the value."""
    between: tuple[Name, ...] = ()
    """Kinds that it makes and that make its pods."""
    forget: tuple[str, ...] = ()
    """Prefixes of annotations that tell of one attempt and do not go over to the next."""
    labels_to_copy: tuple[str, ...] = ()
    """To its Workloads."""

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
        """One object, under the name of its resource type."""
        return self.requests.default or {f"{self.resource.group}/{self.resource.plural}": 1}

    def paths(self) -> Iterator[str]:
        """What decisions read of an object, beside its metadata."""
        yield from (self.hold.path, "status.conditions")
        yield from (one.template for one in self.pod_sets)
        yield from (one.count for one in self.pod_sets if one.count)
        yield from (one.path for one in (self.stop, self.active, self.ready) if one is not None)
        yield from (path for rule in self.finished for path in (rule.path, rule.message) if path)
        yield from (path for path in (self.requests.pod_template, self.managed_by) if path)
