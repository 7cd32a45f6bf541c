"""The rows of the history, from the recorder to a list: one for each object of a queued kind.  Pure."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    with_config,
)
from pydantic.alias_generators import to_camel

from fournos.api.phase import NEW
from fournos.engine.api.values import format_time
from fournos.engine.kube.resource import Key
from fournos.insight.jobs import JobRow
from fournos.insight.values import hardware_text, one_line

if TYPE_CHECKING:
    from fournos.history.results.models import Test


api_row: Final = with_config(ConfigDict(alias_generator=to_camel, populate_by_name=True))
"""Decorates a row that is written as JSON in the history's API."""


@functools.cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """The reader and writer of a type of rows."""
    return TypeAdapter(kind)


def body(value: Any, kind: Any) -> bytes:
    """Returns the value as JSON, in the names of the API."""
    return adapter(kind).dump_json(value, by_alias=True)


@api_row
@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """Identifies one object for ever.  A name does not: a deleted object's name may be used again."""

    cluster: str
    """The UID of the namespace kube-system of the API server that holds the object."""
    namespace: str
    uid: str

    @property
    def text(self) -> str:
        """The identity as one text."""
        return f"{self.cluster}/{self.namespace}/{self.uid}"

    @classmethod
    def of(cls, text: str) -> Identity | None:
        """Returns the identity of which `text` is the text; None if it is none."""
        parts = text.split("/", 2)
        return cls(*parts) if len(parts) == 3 else None


def uid_in(identity: str) -> str:
    """Returns the UID in the text of an identity; "" for ""."""
    return identity.rpartition("/")[2]


class Ending(StrEnum):
    """How the end of a run became known."""

    OPEN = "Open"
    """The run has not ended, as far as is known."""
    OBSERVED = "Observed"
    """A terminal phase was observed."""
    DELETED = "Deleted"
    """The object was deleted before a terminal phase was observed; `ended_at` is the time of that finding."""


@api_row
@dataclass(frozen=True, slots=True)
class Run:
    """The narrow row of one object: everything that lists show and filters use."""

    identity: Identity
    kind: str
    """The kind of the object, such as FournosJob."""
    name: str
    namespace_uid: str
    """A namespace that is deleted and created again under its name is another namespace."""
    submitted_at: datetime
    observed_at: datetime
    """When the recorder saw this state, by its own clock."""
    resource_version: int
    """The resourceVersion of the object.  A row is never overwritten by an older one."""
    phase: str = ""
    message: str = ""
    owner: str = ""
    display_name: str = ""
    target: str = ""
    """The cluster on which it runs; "" before that."""
    pipeline: str = ""
    project: str = ""
    gpu_type: str = ""
    gpu_count: int = 0
    attempts: int = 0
    queued_at: datetime | None = None
    admitted_at: datetime | None = None
    started_at: datetime | None = None
    """When the first container of the first attempt started: the end of the first wait."""
    running_at: datetime | None = None
    """When it last began to run (of a FournosJob, `fournos.api.phase.run_times`); None in older records."""
    ended_at: datetime | None = None
    ending: Ending = Ending.OPEN
    failure: str = ""
    """The category of a failure (`fournos.insight.failure.Category`); "" without a failure."""
    fingerprint: str = ""
    """Runs with the same fingerprint can be compared (`fournos.history.fingerprint`)."""
    waited_for: str = ""
    """What it waited for last (`fournos.api.phase.Cause`); "" if it never waited."""
    waited_for_text: str = ""
    """The same for people; for example the holder of the lock, or the flavor whose quota is short."""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return Key(self.identity.namespace, self.name)

    @property
    def ran_from(self) -> datetime | None:
        """From when to `ended_at` it ran, as lists show it; None if it has not begun."""
        return self.running_at or self.started_at


class Document(StrEnum):
    """The documents of a run: JSON values, each stored compressed, outside of the row."""

    OBJECT = "object"
    """The object as last seen: spec, status and metadata without managedFields."""
    TASKS = "tasks"
    """Its tasks with their times (`fournos.insight.children.Task`), by attempt."""
    EVENTS = "events"
    QUOTA = "quota"
    """The quota that its Workload holds or held, by flavor and resource."""
    PROVENANCE = "provenance"
    """Tasks with their steps, image digests, Pipeline with its resolved spec, SHAs of the engine."""
    PROBLEMS = "problems"
    """What of the results that its run returned could not be stored, and why: texts."""


@dataclass(frozen=True, slots=True)
class Record:
    """One upsert of the recorder: a row with what belongs to it.  Written in one transaction."""

    run: Run
    documents: Mapping[Document, Any] = field(default_factory=dict)
    """Replaces the stored documents of these names; the others stay."""
    results: tuple[Test, ...] = ()
    """What the run returned; replaces the stored results of the same tests, the others stay."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of the history that is read: the runs that a caller may read with one request."""

    namespaces: tuple[str, ...] | None
    """UIDs of namespaces; None: all, gone ones included."""
    cluster: str = ""
    """Whose runs may be read (`Identity.cluster`); "": any that has the namespaces, as a UID is of one."""

    def includes(self, run: Run) -> bool:
        mine = self.cluster in ("", run.identity.cluster)
        return mine and (self.namespaces is None or run.namespace_uid in self.namespaces)


ALL_RUNS: Final = Scope(None)
NO_RUNS: Final = Scope(())


PAGE_MAX: Final = 500


def _aware(value: Any) -> Any:
    """A time without a zone is UTC."""
    if isinstance(value, str):
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            return value
        return time if time.tzinfo else time.replace(tzinfo=UTC)
    return value


def _is_label(text: str) -> str:
    name, equals, _ = text.partition("=")
    if not equals or not name:
        raise ValueError(f"write name=value, not {text!r}")
    return text


_LONGEST: Final = 1024
"""Maximum characters of a value."""
_MOST: Final = 64
"""Maximum number of values of a parameter."""

Time = Annotated[AwareDatetime, BeforeValidator(_aware)]
Text = Annotated[str, Field(max_length=_LONGEST)]
Texts = Annotated[tuple[Text, ...], Field(max_length=_MOST)]
Labels = Annotated[tuple[Annotated[Text, AfterValidator(_is_label)], ...], Field(max_length=_MOST)]


class Parameters(BaseModel):
    """Base of the parameters of a request to the history."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class RunFilter(Parameters):
    """The filters of a list of runs.  A filter with several values matches any of them."""

    kind: Texts = Field((), description="Kind of the object, such as FournosJob.")
    phase: Texts = Field((), description="Phase, such as Failed.")
    owner: Texts = Field((), description="Owner (spec.owner).")
    cluster: Texts = Field((), description="Cluster that it ran on.")
    pipeline: Texts = Field((), description="Tekton Pipeline.")
    fingerprint: Texts = Field((), description="Fingerprint: runs that can be compared have the same.")
    label: Labels = Field((), description="Label, as name=value; all must match.")
    name: Text = Field("", description="Exact name.")
    text: Text = Field("", description="Part of the name or display name, in any case.")
    since: Time | None = Field(None, description="Submitted at or after this time (RFC 3339).")
    until: Time | None = Field(None, description="Submitted before this time (RFC 3339).")
    limit: int = Field(50, ge=1, le=PAGE_MAX, description="Maximum number of runs.")
    cursor: Text = Field("", description="`cursor` of the page before; without it, the newest runs.")


@dataclass(frozen=True, slots=True)
class Query:
    """What is read of the history."""

    scope: Scope = NO_RUNS
    namespace: str = ""
    """The name of the namespace; it matches namespaces of this name that are gone, too."""
    filters: RunFilter = field(default_factory=RunFilter)
    uid: str = ""
    """The UID of the object."""


@api_row
@dataclass(frozen=True, slots=True)
class Page:
    """One page of runs, newest submission first."""

    runs: tuple[Run, ...]
    cursor: str = ""
    """The cursor of the next page; "" if this is the last one."""


@api_row
@dataclass(frozen=True, slots=True)
class KeepMark:
    """Why a run does not expire."""

    by: str
    at: datetime
    reason: str = ""


@api_row
@dataclass(frozen=True, slots=True)
class Detail:
    """One run with what belongs to it."""

    run: Run
    documents: Mapping[Document, Any] = field(default_factory=dict)
    """Those of the documents that were asked for and exist."""
    kept: KeepMark | None = None
    """None: the run may expire."""


R = TypeVar("R", bound=JobRow)


def recorded_row(row: type[R], run: Run) -> R:
    """Returns the row of a run, as an object of the class `row`."""
    return row(
        namespace=run.identity.namespace,
        name=run.name,
        uid=run.identity.uid,
        title=run.display_name or run.name,
        phase=run.phase or NEW,
        owner=run.owner,
        cluster=run.target,
        hardware=hardware_text({"gpuType": run.gpu_type, "gpuCount": run.gpu_count}).removeprefix("-"),
        submitted=format_time(run.submitted_at),
        started=_time(run.ran_from),
        ended=_time(run.ended_at),
        message=one_line(run.message),
        live=False,
        labels=run.labels,
    )


def _time(at: datetime | None) -> str:
    return format_time(at) if at else ""
