"""Chooses the filter by which a page is read, and limits how far the page searches.  Pure.

A page reads the list of one filter, the leading filter, and tests each entry by the other filters.  The
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
from fournos.history.store import trigrams
from fournos.history.store.entries import TEXT, TIME, TRIGRAMS, Entries, Lists

_FEW: Final = frozenset({"uid", "name"})
"""Filters that leave few runs, whatever their value."""
TESTED: Final = {"sqlite": 8_000, "postgresql": 4_000}
"""Dialect → the maximum number of look-ups in other indexes for one page.  They take some milliseconds."""
COMPARED: Final = {"sqlite": 50_000, "postgresql": 40_000}
"""Dialect → names that one page compares with a text at most: about ten milliseconds."""
FOUND: Final = 4_000
"""Runs with the trigrams of a text that one page reads and compares at most: that takes some milliseconds."""
FIRST: Final = 4_000
"""Names that are compared before an index is asked for a text: where these fill a page, it has too many."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How a page is read."""

    leading: str
    until: datetime | None = None
    """Runs submitted before this time are not searched; None: all are."""
    rare: tuple[str, ...] = ()
    """The trigrams by which `TRIGRAMS` finds the text."""


class Choice:
    """The choice of the leading filter, by one to four statements that count."""

    def __init__(self, query: Query, dialect: str) -> None:
        self._lists = Lists(query, dialect)
        self._dialect = dialect
        self._text, self._page = bool(query.text), query.limit
        self.leading: Sequence[str] = self._lists.leading()
        """Filters that can lead, and are counted together."""
        self.trigrams: Sequence[str] = trigrams.of(query.text, dialect)
        """Trigrams of the text, which are counted if each filter has too many entries."""
        # An entry is looked up in the index of each filter that does not lead.
        self._tested = max(1, TESTED[dialect] // max(1, self._lists.tests - 1))
        self._compared = COMPARED[dialect]

    def known(self) -> Reach | None:
        """Returns the reach that needs no look at the database; None if it needs one."""
        if not self._lists.tests:
            return Reach(TIME)
        if self.leading and (self._lists.tests == 1 or self.leading[0] in _FEW):
            return Reach(self.leading[0])
        return None

    def counts(self) -> Select[Any]:
        """Returns the statement of the leading filters' numbers of entries, of each list up to the bound."""
        return select(*map(self._count, self.leading))

    def fewest(self, counts: Sequence[int]) -> Reach | None:
        """Returns the filter with the fewest entries; None if each has too many for one page."""
        count, name = min(zip(counts, self.leading, strict=True), key=lambda pair: pair[0])
        return Reach(name) if count < self._tested else None

    def numbers(self) -> Select[Any]:
        """Returns the statement of how many names have each of the trigrams; it has no rows if a page is
        filled by the first names with the text."""
        first = self._lists.named(FIRST).subquery()
        named = select(func.count().label("number")).select_from(first).subquery()
        counted = trigrams.numbers(self.trigrams, self._dialect)
        joined = counted.join(named, named.c.number <= self._page)
        return select(counted.c.number).select_from(joined).order_by(counted.c.place)

    def rarest(self, numbers: Sequence[float]) -> Reach | None:
        """Returns the reach by those trigrams that few names have, if there are any.

        Whether few enough names have all of them is to be counted (`found`), unless `is_few`.
        """
        rare = trigrams.rare(self.trigrams, numbers)
        return Reach(TRIGRAMS, rare=rare) if rare else None

    def found(self, rare: Sequence[str]) -> Select[Any]:
        """Returns the statement of the number of runs with all these trigrams, up to the bound."""
        return select(_number(trigrams.keys(rare, self._dialect).limit(self._room)))

    def is_few(self, number: float) -> bool:
        """Returns whether a page has room for so many runs with the trigrams."""
        return number < self._room

    def ends(self) -> Select[Any]:
        """Returns the statement of the times at which the first entries of each list end."""
        return select(*(self._end(one, skipped) for _, one, skipped in self._candidates()))

    def furthest(self, ends: Sequence[datetime | None]) -> Reach:
        """Returns the filter whose first entries reach furthest back."""
        reached: dict[str, list[datetime | None]] = {}
        for (name, _, _), end in zip(self._candidates(), ends, strict=True):
            reached.setdefault(name, []).append(end)
        # Of several lists each is read as far as the one that ends first.
        latest = {name: max((end for end in each if end), default=None) for name, each in reached.items()}
        known = {name: end for name, end in latest.items() if end is not None}
        whole = next((name for name in latest if name not in known), None)
        if whole is not None:
            return Reach(whole)
        leading = min(known, key=known.__getitem__)
        return Reach(leading, known[leading])

    def _candidates(self) -> list[tuple[str, Entries, int]]:
        """Returns the lists, each with its filter and the entries of it that a page has room for."""
        wanted = [(name, self._tested) for name in self.leading]
        if self._text:
            wanted.append((TEXT, self._compared))
        found = []
        for name, bound in wanted or [(TIME, self._tested)]:
            lists = list(self._lists.entries(name))
            found += [(name, one, bound // len(lists)) for one in lists]
        return found

    def _count(self, name: str) -> Any:
        return sum((_number(one.limit(self._tested)) for one in self._lists.keys(name)), literal(0))

    @property
    def _room(self) -> int:
        """Runs with the trigrams that a page has room for."""
        return min(FOUND, self._tested)

    def _end(self, entries: Entries, skipped: int) -> Any:
        return (
            select(entries.time)
            .where(*entries.conditions)
            .order_by(entries.time.desc(), entries.number.desc())
            .offset(skipped)
            .limit(1)
            .scalar_subquery()
        )


def _number(statement: Select[Any]) -> Any:
    return select(func.count()).select_from(statement.subquery()).scalar_subquery()
