"""Groups of findings, and the state of each series, as lines for people.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fournos.history.regressions.acknowledge import Acknowledgement, is_open
from fournos.history.regressions.group import FindingGroup, size
from fournos.history.regressions.judge import Report, Short
from fournos.history.regressions.series import Finding, Series

STEADY: Final = "steady"
"""The state of a series without an open change."""


def lines(
    groups: Iterable[FindingGroup],
    names: Mapping[str, str] | None = None,
    covered: Mapping[str, Acknowledgement] | None = None,
) -> list[str]:
    """One line for each group, with the name of the run that it began with.

    `names` maps runs to their names, `covered` the ids of findings to their acknowledgements.
    """
    return [_line(group, names or {}, covered or {}) for group in groups]


def state_of(series: Series, report: Report, covered: Mapping[str, Acknowledgement]) -> str:
    """Returns in one phrase how a series stands: its newest open change, why it is not judged, or steady."""
    short = short_of(series, report)
    for finding in report.findings:
        if finding.series == series.id and is_open(finding, covered.get(finding.id)):
            return f"{finding.kind} {finding.state.lower()} {extent(finding, short)}"
    return str(short) if short else STEADY


def short_of(series: Series, report: Report) -> Short | None:
    """Returns why a series is not judged; None if it is."""
    return next((short for short in report.short if short.series == series.id), None)


def extent(finding: Finding, short: Short | None) -> str:
    """Returns how large a change is, and of how many runs since, where they are too few."""
    counted = f", {short.points} of {short.needed} runs since" if short and short.changed else ""
    return f"{size(finding)}{counted}"


def _line(joined: FindingGroup, names: Mapping[str, str], covered: Mapping[str, Acknowledgement]) -> str:
    name = names.get(joined.run, "")
    since = f"{joined} since {name}" if name else str(joined)
    back = joined.findings[0].recovered
    if back and all(finding.recovered for finding in joined.findings):
        return f"{since}; recovered with {names.get(back, 'a later run')}"
    acknowledgements = [covered.get(one.id) for one in joined.findings]
    newest = max((one for one in acknowledgements if one), key=lambda one: one.made_at, default=None)
    if newest is None:
        return since
    part = (
        "acknowledged"
        if all(acknowledgements)
        else f"{sum(map(bool, acknowledgements))} of them acknowledged"
    )
    return f"{since}; {part} by {newest.by}: {newest.reason}"
