"""Groups of findings as lines for people.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fournos.history.regressions.acknowledge import Acknowledgement
from fournos.history.regressions.group import Group


def lines(
    groups: Iterable[Group],
    names: Mapping[str, str] | None = None,
    covered: Mapping[str, Acknowledgement] | None = None,
) -> list[str]:
    """One line for each group, with the name of the run that it began with.

    `names` maps runs to their names, `covered` the ids of findings to their acknowledgements.
    """
    return [_line(one, (names or {}).get(one.run, ""), covered or {}) for one in groups]


def _line(found: Group, name: str, covered: Mapping[str, Acknowledgement]) -> str:
    since = f"{found} since {name}" if name else str(found)
    known = [covered.get(one.id) for one in found.findings]
    newest = max((one for one in known if one), key=lambda one: one.made_at, default=None)
    if newest is None:
        return since
    part = "acknowledged" if all(known) else f"{sum(map(bool, known))} of them acknowledged"
    return f"{since}; {part} by {newest.by}: {newest.reason}"
