"""Plans the query of a page: by which index it is read, and how far the page searches.  Pure.

A page scans the index of one filter, the leading filter, and tests each entry by the other filters.  The
filter with the fewest entries leads.  If all filters have many entries, the filter whose first entries reach
furthest back leads.  The page then reads these first entries only, and returns a cursor for the next page.
So the cost of a page depends little on the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Select, func, literal, select

from fournos.history.records import Query
from fournos.history.store.index_scans import TEXT, TIME, IndexScan, QueryFilters

_FEW: Final = frozenset({"uid", "name"})
"""Filters that leave few runs, whatever their value."""
MAX_LOOKUPS: Final = {"sqlite": 8_000, "postgresql": 4_000}
"""Dialect → the maximum number of look-ups in other indexes for one page.  They take some milliseconds."""
MAX_COMPARED: Final = {"sqlite": 50_000, "postgresql": 40_000}
"""Dialect → names that one page compares with a text at most: about ten milliseconds."""


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """How a page is read."""

    leading: str
    until: datetime | None = None
    """Runs submitted before this time are not searched; None: all are."""


class Planner:
    """Chooses the leading filter of a query, by the results of up to two statements that count."""

    def __init__(self, query: Query, dialect: str) -> None:
        self._filters = QueryFilters(query, dialect)
        self._text = bool(query.text)
        self.leading: Sequence[str] = self._filters.leading()
        """Filters that can lead, and are counted together."""
        # An entry is looked up in the index of each filter that does not lead.
        self._tested = max(1, MAX_LOOKUPS[dialect] // max(1, self._filters.condition_count - 1))
        self._compared = MAX_COMPARED[dialect]

    def without_counts(self) -> QueryPlan | None:
        """Returns the plan that needs no counts from the database; None if it needs some."""
        if not self._filters.condition_count:
            return QueryPlan(TIME)
        if self.leading and (self._filters.condition_count == 1 or self.leading[0] in _FEW):
            return QueryPlan(self.leading[0])
        return None

    def counts_statement(self) -> Select[Any]:
        """Returns the statement of the leading filters' numbers of entries, of each scan up to the bound."""
        return select(*map(self._count, self.leading))

    def by_fewest(self, counts: Sequence[int]) -> QueryPlan | None:
        """Returns the plan by the filter with the fewest entries; None if each has too many for one page."""
        count, name = min(zip(counts, self.leading, strict=True), key=lambda pair: pair[0])
        return QueryPlan(name) if count < self._tested else None

    def ends_statement(self) -> Select[Any]:
        """Returns the statement of the times at which the first entries of each scan end."""
        return select(*(self._end(scan, skipped) for _, scan, skipped in self._candidates()))

    def by_furthest(self, ends: Sequence[datetime | None]) -> QueryPlan:
        """Returns the plan by the filter whose first entries reach furthest back."""
        reached: dict[str, list[datetime | None]] = {}
        for (name, _, _), end in zip(self._candidates(), ends, strict=True):
            reached.setdefault(name, []).append(end)
        # Of several scans each is read as far as the one that ends first.
        latest = {name: max((end for end in each if end), default=None) for name, each in reached.items()}
        bounded = {name: end for name, end in latest.items() if end is not None}
        whole = next((name for name in latest if name not in bounded), None)
        if whole is not None:
            return QueryPlan(whole)
        leading = min(bounded, key=bounded.__getitem__)
        return QueryPlan(leading, bounded[leading])

    def _candidates(self) -> list[tuple[str, IndexScan, int]]:
        """Returns the scans, each with its filter and the entries of it that a page has room for."""
        bounds = [(name, self._tested) for name in self.leading]
        if self._text:
            bounds.append((TEXT, self._compared))
        candidates = []
        for name, bound in bounds or [(TIME, self._tested)]:
            scans = list(self._filters.scans(name))
            candidates += [(name, scan, bound // len(scans)) for scan in scans]
        return candidates

    def _count(self, name: str) -> Any:
        return sum(
            (_number(keys.limit(self._tested)) for keys in self._filters.key_statements(name)), literal(0)
        )

    def _end(self, scan: IndexScan, skipped: int) -> Any:
        return (
            select(scan.time)
            .where(*scan.conditions)
            .order_by(scan.time.desc(), scan.number.desc())
            .offset(skipped)
            .limit(1)
            .scalar_subquery()
        )


def _number(statement: Select[Any]) -> Any:
    return select(func.count()).select_from(statement.subquery()).scalar_subquery()
