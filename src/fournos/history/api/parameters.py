"""Reads the parameters of a request: unknown and invalid ones are refused, all at once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar

from multidict import MultiMapping
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from fournos.history.api.errors import BadRequestError
from fournos.history.records import PAGE_MAX, Query
from fournos.insight.values import NEW

_LONGEST: Final = 1024
"""Maximum characters of a value."""
_MOST: Final = 64
"""Maximum number of values of a parameter."""


def _aware(value: Any) -> Any:
    """A time without a zone is UTC."""
    if isinstance(value, str):
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            return value
        return time if time.tzinfo else time.replace(tzinfo=UTC)
    return value


Time = Annotated[datetime, BeforeValidator(_aware)]
Text = Annotated[str, Field(max_length=_LONGEST)]
Texts = Annotated[tuple[Text, ...], Field(max_length=_MOST)]


class Parameters(BaseModel):
    """Base of the parameters of all routes."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class NoParameters(Parameters):
    """A route without parameters."""


class Scoped(Parameters):
    """Base of the parameters of routes that read or write stored runs."""

    all_clusters: bool = Field(
        False,
        description="Also runs of other clusters in the same database; takes the right to `allclusters`.",
    )


class RunFilter(Scoped):
    """The filters of a list of runs.  A filter with several values matches any of them."""

    kind: Texts = Field((), description="Kind of the object, such as FournosJob.")
    phase: Texts = Field((), description="Phase, such as Failed.")
    owner: Texts = Field((), description="Owner (spec.owner).")
    cluster: Texts = Field((), description="Cluster that it ran on.")
    pipeline: Texts = Field((), description="Tekton Pipeline.")
    fingerprint: Texts = Field((), description="Fingerprint: runs that can be compared have the same.")
    label: Texts = Field((), description="Label, as name=value; all must match.")
    name: Text = Field("", description="Exact name.")
    text: Text = Field("", description="Part of the name or display name, in any case.")
    since: Time | None = Field(None, description="Submitted at or after this time (RFC 3339).")
    until: Time | None = Field(None, description="Submitted before this time (RFC 3339).")
    limit: int = Field(50, ge=1, le=PAGE_MAX, description="Maximum number of runs.")
    cursor: Text = Field("", description="`cursor` of the page before; without it, the newest runs.")

    def query(self, *, namespaces: tuple[str, ...] | None, in_cluster: str, namespace: str = "") -> Query:
        """Returns the query of the store.  Raises BadRequestError for a label without a value."""
        labels = dict(_label(one) for one in self.label)
        return Query(
            namespaces=namespaces,
            in_cluster=in_cluster,
            namespace=namespace,
            kinds=self.kind,
            # A run that nothing has reconciled yet may have no phase at all.
            phases=(*self.phase, "") if NEW in self.phase else self.phase,
            owners=self.owner,
            targets=self.cluster,
            pipelines=self.pipeline,
            fingerprints=self.fingerprint,
            labels=labels,
            name=self.name,
            text=self.text,
            since=self.since,
            until=self.until,
            limit=self.limit,
            cursor=self.cursor,
        )


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise BadRequestError(f"label: write name=value, not {text!r}")
    return name, value


P = TypeVar("P", bound=Parameters)


def read(model: type[P], given: MultiMapping[str]) -> P:
    """Reads the parameters of a request.  Raises BadRequestError, which names each problem."""
    values: dict[str, Any] = {}
    several = {info.alias or name for name, info in model.model_fields.items() if _is_tuple(info.annotation)}
    for name in set(given.keys()):
        texts = given.getall(name)
        if name in several:
            values[name] = tuple(texts)
        elif len(texts) > 1:
            raise BadRequestError(f"{name}: given {len(texts)} times, and it takes one value")
        else:
            values[name] = texts[0]
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = [
            f"{'.'.join(str(one) for one in problem['loc'])}: {_message(problem)}"
            for problem in error.errors()
        ]
        raise BadRequestError("; ".join(problems[:20])) from None


def _is_tuple(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is tuple


def _message(problem: Any) -> str:
    if problem["type"] == "extra_forbidden":
        return "unknown parameter"
    return str(problem["msg"]).removeprefix("Value error, ")
