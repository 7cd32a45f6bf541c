"""A test and its KPIs, from the file to the page.  The names of the fields are Caliper's."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sized
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import fmean
from typing import Annotated, Any, ClassVar, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    Strict,
    model_validator,
)

from fournos.engine.api.values import escaped, has_control
from fournos.history.records import Run, api_row

MAX_VALUE: Final = 1e100
"""Largest value of a KPI, either way."""
MAX_LABELS: Final = 64
MAX_POINTS: Final = 10_000
MAX_METADATA: Final = 16_384
"""Bytes of a test's metadata as JSON."""
VERSION_LABELS: Final = frozenset(
    {
        "branch",
        "build",
        "build_id",
        "commit",
        "date",
        "image",
        "image_tag",
        "job_name",
        "pr",
        "pull_number",
        "ref",
        "run_id",
        "sha",
        "tag",
        "timestamp",
        "uuid",
        "version",
    }
)
"""Labels that name a version or one run.  They do not count for what is comparable: no two runs would be."""


def _identifier(text: str) -> str:
    if not text.strip() or has_control(text):
        raise ValueError("must not be empty, and must not have control characters")
    return text


def _utc(moment: datetime) -> datetime:
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("is not between the years 1 and 9999 in UTC") from None


def _at_most(most: int) -> BeforeValidator:
    """Refuses a longer list or map before its items are checked: each wrong one would be an error."""

    def check(value: object) -> object:
        if isinstance(value, Sized) and len(value) > most:
            raise ValueError(f"has {len(value)} items; at most {most} are accepted")
        return value

    return BeforeValidator(check)


def _bounded(value: float) -> float:
    """Returns the value; 0 for a denormal one, which divides to infinity.

    Raises ValueError beyond what statistics can square and add up.
    """
    if abs(value) > MAX_VALUE:
        raise ValueError(f"must be from -{MAX_VALUE:g} to {MAX_VALUE:g}")
    return value if abs(value) >= sys.float_info.min else 0.0


def _label(value: object) -> object:
    """Returns the text of a label; YAML and Caliper also have booleans and numbers."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Number = Annotated[float, Strict(), Field(allow_inf_nan=False), AfterValidator(_bounded)]
_String = Annotated[str, Strict()]
Identifier = Annotated[_String, Field(max_length=256), AfterValidator(_identifier)]
ShortText = Annotated[_String, Field(max_length=256), AfterValidator(escaped)]
Text = Annotated[_String, Field(max_length=4096), AfterValidator(escaped)]
Flag = Annotated[bool, Strict()]
LabelValue = Annotated[_String, BeforeValidator(_label), Field(max_length=1024), AfterValidator(escaped)]
Labels = Annotated[dict[Identifier, LabelValue], _at_most(MAX_LABELS)]
Time = Annotated[datetime, AfterValidator(_utc)]


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Kpi(_Stored):
    """One measured value (a scalar), or one measured curve."""

    kpi_id: Identifier
    name: Text = ""
    help: Text = ""
    unit: ShortText = ""
    """The unit of a scalar."""
    higher_is_better: Flag | None = None
    """None: not stated.  Such a KPI is shown to change, but is never better or worse."""
    value: Number | None = None
    values: Annotated[tuple[tuple[Number, Number], ...], FailFast(), _at_most(MAX_POINTS)] = ()
    """The points (x, y) of a curve, by ascending x."""
    x_unit: ShortText = ""
    x_help: Text = ""
    y_unit: ShortText = ""
    y_help: Text = ""

    @model_validator(mode="after")
    def _either(self) -> Kpi:
        if self.value is not None and self.values:
            raise ValueError("has a value and a curve; write either value or values")
        if self.value is None and not self.values:
            raise ValueError("has neither a value nor the points of a curve")
        object.__setattr__(self, "values", tuple(sorted(self.values)))
        return self

    @property
    def height(self) -> float:
        """The value, or the mean of the points of a curve."""
        return fmean(y for _, y in self.values) if self.value is None else self.value

    @property
    def is_curve(self) -> bool:
        return bool(self.values)

    @property
    def measured_in(self) -> str:
        """The unit of the value, or the units of both axes."""
        return f"{self.y_unit} / {self.x_unit}".strip(" /") if self.is_curve else self.unit


class Test(_Stored):
    """One test of a job with its KPIs.  A job has as many as its benchmark has configurations."""

    __test__: ClassVar[bool] = False
    """For pytest: it is no class of tests."""

    run_id: ShortText = ""
    """The identity that the benchmark gave it."""
    timestamp: Time | None = None
    labels: Labels = Field(default_factory=dict)
    """The configuration of the test, such as model_name."""
    kpi_labels: Labels = Field(default_factory=dict)
    """The platform: GPU type, test harness."""
    success: Flag = True
    message: Text = ""
    metadata: Annotated[dict[Identifier, Any], _at_most(MAX_METADATA // 4)] = Field(default_factory=dict)
    kpis: tuple[Kpi, ...] = ()

    @model_validator(mode="after")
    def _bounded(self) -> Test:
        ids = Counter(kpi.kpi_id for kpi in self.kpis)
        if several := [kpi_id for kpi_id, number in ids.items() if number > 1]:
            raise ValueError(f"has the KPI {several[0]!r} more than once")
        try:
            size = len(canonical(self.metadata))
        except (ValueError, TypeError, RecursionError):
            raise ValueError("metadata is not JSON") from None
        if size > MAX_METADATA:
            raise ValueError(f"metadata has {size} bytes; at most {MAX_METADATA} are kept")
        return self

    @property
    def all_labels(self) -> dict[str, str]:
        """The labels of the platform and of the test."""
        return {**self.kpi_labels, **self.labels}

    @property
    def slot(self) -> str:
        """Identifies the test within its job: one that is pushed again replaces that of its slot."""
        return _hash([self.run_id, self.labels, self.kpi_labels])

    @property
    def content_key(self) -> str:
        """Identifies the content: pushing the same test twice changes nothing."""
        return _hash(self.model_dump(mode="json"))


def canonical(value: Any) -> bytes:
    """JSON with sorted keys.  Raises ValueError for NaN and infinity."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return text.encode()


def _hash(value: Any) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()[:32]


def series_labels(test: Test) -> dict[str, str]:
    """The labels that decide which tests belong to one series: the test's and the platform's."""
    merged: Mapping[str, str] = test.all_labels
    return {name: merged[name] for name in sorted(merged) if not is_version(name)}


def is_version(label: str) -> bool:
    """Whether a label names a version or one run."""
    return label.lower() in VERSION_LABELS


def series_id(fingerprint: str, test: Test, kpi: Kpi) -> str:
    """Identifies a series: the values of one KPI in comparable runs, over time.

    The unit counts: values in milliseconds and in seconds are two series.  So do the x of a curve: curves
    are compared where they have the same.
    """
    x = [x for x, _ in kpi.values] if kpi.is_curve else None
    parts = [fingerprint, kpi.kpi_id, x, kpi.measured_in, series_labels(test)]
    return _hash(parts)


@api_row
@dataclass(frozen=True, slots=True)
class RunValues:
    """What the last attempt of a run measured, without curves."""

    run: Run
    tests: tuple[Test, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The fields of its object that were asked for, by their paths; None for one that it does not have."""

    @property
    def values(self) -> tuple[tuple[Test, Kpi], ...]:
        """Each KPI with its test."""
        return tuple((test, kpi) for test in self.tests for kpi in test.kpis)


@api_row
@dataclass(frozen=True, slots=True)
class ValuePage:
    """One page of runs with their values, newest submission first.  As `fournos.history.records.Page`."""

    runs: tuple[RunValues, ...] = ()
    cursor: str = ""


@api_row
@dataclass(frozen=True, slots=True)
class Received:
    """What became of a file of results."""

    added: int = 0
    replaced: int = 0
    """Tests that were there with other content, such as that of an earlier attempt."""
    unchanged: int = 0
    refused: int = 0
    """Tests beyond the limit of a run."""
    warnings: tuple[str, ...] = ()
    """Fields that are not stored, and the like."""
