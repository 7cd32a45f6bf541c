"""The filters of the list of jobs, as its form sends them.  Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, TypedDict, TypeVar
from urllib.parse import urlencode

from multidict import MultiMapping

from fournos.api.phase import Phase
from fournos.client.errors import FournosError
from fournos.insight.jobs import matches, wanted_labels, wanted_phases
from fournos.insight.values import NEW, Obj, created, display_name, moment, name_of

PHASES: Final = ("active", NEW, *(phase.value for phase in Phase))
"""The choices of the form; "active" means all phases that are not terminal."""
_FIELDS: Final = {
    "text": "",
    "phase": "--phase",
    "owner": "--owner",
    "cluster": "--cluster",
    "label": "-l",
    "since": "",
    "until": "",
}
"""The fields of the form, each with the option of `fournos list`; "" where there is none."""
_DAY: Final = 10
"""Characters of a date without a time."""
_TITLES: Final = {"phase": "Phase", "label": "Labels", "since": "From", "until": "To"}

T = TypeVar("T")


class RecordedFilters(TypedDict):
    """Filters of `AsyncHistory.runs`."""

    owner: str | Sequence[str]
    cluster: str | Sequence[str]
    labels: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class Filters:
    """Which jobs are listed; an empty filter matches all."""

    phase: str = ""
    owner: str = ""
    cluster: str = ""
    label: str = ""
    """As typed: name=value, several with commas."""
    text: str = ""
    since: str = ""
    """As typed: a date, or a time of RFC 3339."""
    until: str = ""
    """As typed; a date includes its whole day."""
    labels: Mapping[str, str] = field(default_factory=dict)
    phases: frozenset[str] = frozenset()
    begin: datetime | None = None
    """Submitted at or after this time."""
    end: datetime | None = None
    """Submitted before this time."""
    wrong: Mapping[str, str] = field(default_factory=dict)
    """Field → the sentence about a value that is not valid: it filters nothing."""

    @property
    def ignored(self) -> str:
        """The titles of the fields that filter nothing."""
        return " and ".join(_TITLES[name] for name in self.wrong)

    @property
    def fields(self) -> dict[str, str]:
        """The fields of the form that are not empty."""
        return {name: value for name in _FIELDS if (value := str(getattr(self, name)))}

    @property
    def recorded(self) -> RecordedFilters:
        """The filters that the history takes as they are, without phases and times."""
        return {
            "owner": self.owner or (),
            "cluster": self.cluster or (),
            "labels": self.labels,
            "text": self.text,
        }

    def address(self) -> str:
        """The address of the list with these filters."""
        given = urlencode(self.fields)
        return f"/jobs?{given}" if given else "/jobs"

    @property
    def command(self) -> str:
        """The command line that lists the same; "" for what it cannot filter."""
        if self.text or self.begin or self.end or self.wrong:
            return ""
        words = ["fournos", "list", "--all-time"]
        for name, option in _FIELDS.items():
            if option and (value := self.fields.get(name)):
                words += [option, value]
        # People copy it, and who made the address chose the values.
        return shlex.join(words)

    def match(self, job: Obj) -> bool:
        """True if a live job matches all filters."""
        names = (name_of(job), display_name(job)) if self.text else ()
        if self.text and not any(self.text.lower() in name.lower() for name in names):
            return False
        if not matches(job, phases=self.phases, owner=self.owner or None, cluster=self.cluster or None):
            return False
        own = job["metadata"].get("labels") or {}
        if any(own.get(name) != value for name, value in self.labels.items()):
            return False
        if self.begin is None and self.end is None:
            return True
        at = moment(created(job))
        return (self.begin is None or (at is not None and at >= self.begin)) and (
            self.end is None or (at is not None and at < self.end)
        )


@dataclass(frozen=True, slots=True)
class Shortcut:
    """A choice of filters that many want."""

    title: str
    filters: Filters

    def chosen(self, filters: Filters) -> bool:
        """True if the list is filtered so."""
        return self.filters.fields == filters.fields


def shortcuts(owner: str, now: datetime) -> list[Shortcut]:
    """The choices at the top of the list; without an owner there are no jobs of one's own."""
    week = f"{now - timedelta(days=7):%Y-%m-%d}"
    own = {
        "Mine": Filters(owner=owner),
        "My failed": Filters(owner=owner, phase=Phase.FAILED.value),
    }
    choices = {
        "All": Filters(),
        **(own if owner else {}),
        "Active": Filters(phase="active"),
        "Failed": Filters(phase=Phase.FAILED.value),
        "This week": Filters(since=week),
    }
    return [Shortcut(title, filters) for title, filters in choices.items()]


def read(query: MultiMapping[str] | Mapping[str, str]) -> Filters:
    """Reads the fields of the form; a value that is not valid filters nothing, and is in `wrong`."""
    given: dict[str, Any] = {name: query.get(name, "").strip() for name in _FIELDS}
    wrong: dict[str, str] = {}

    def valid(name: str, reading: Callable[[str], T], otherwise: T) -> T:
        try:
            return reading(given[name])
        except _WrongError as error:
            wrong[name] = str(error)
            return otherwise

    return Filters(
        **given,
        phases=valid("phase", _phases, frozenset()),
        labels=valid("label", _labels, {}),
        begin=valid("since", _time, None),
        end=valid("until", _end, None),
        wrong=wrong,
    )


class _WrongError(Exception):
    """The text is the sentence for the field."""


def _phases(text: str) -> frozenset[str]:
    try:
        return wanted_phases([text])
    except FournosError as error:
        raise _WrongError(f"{text!r} is not a phase. Choose one of the list.") from error


def _labels(text: str) -> dict[str, str]:
    try:
        return wanted_labels(text)
    except FournosError as error:
        raise _WrongError(f"{error.message}: {error.fix}.") from error


def _time(text: str) -> datetime | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _WrongError(
            f"{text!r} is not a date. Write it like 2026-03-31, or with a time like 2026-03-31T14:30Z."
        ) from None


def _end(text: str) -> datetime | None:
    """The time before which jobs were submitted: a date includes its whole day."""
    time = _time(text)
    if time is None or len(text) != _DAY:
        return time
    # After the last day that there is nothing follows.
    return time + timedelta(days=1) if time.date() < date.max else None
