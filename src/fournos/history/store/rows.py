"""Runs and their parts as rows of the tables, and back.  Pure."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from functools import cache
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, Row, Text, cast, func, select, type_coerce

from fournos.history.records import Ending, Identity, Run
from fournos.history.store.schema import labels, runs
from fournos.history.store.text import folded, indexed, message

_PLAIN: Final = tuple(
    field.name
    for field in fields(Run)
    if field.name not in ("identity", "labels", "ending", "message", "waited_for_text")
)
_HEAD: Final = ("id", "cluster", "namespace", "uid", "ending", "message", "waited_for_text")


@cache
def columns(dialect: str) -> tuple[ColumnElement[Any], ...]:
    """Returns the columns that `run_of` reads: those of a run, after the store's own key, and its labels."""
    theirs = select(_OBJECT[dialect](labels.c.name, labels.c.value)).where(labels.c.run_id == runs.c.id)
    return (*(runs.c[name] for name in (*_HEAD, *_PLAIN)), theirs.scalar_subquery().label("labels"))


_OBJECT: Final[dict[str, Any]] = {
    "sqlite": lambda name, value: type_coerce(func.json_group_object(name, value), Text),
    "postgresql": lambda name, value: cast(func.json_object_agg(name, value), Text),
}
"""Dialect → the JSON object of all rows, so that a page is one statement."""


def identity_columns(identity: Identity) -> dict[str, str]:
    """Returns the columns that identify a run."""
    return {
        "cluster": indexed(identity.cluster),
        "namespace": indexed(identity.namespace),
        "uid": indexed(identity.uid),
    }


def identity_of(row: Any) -> Identity:
    """Returns the identity of a row with the columns that identify a run."""
    return Identity(row.cluster, row.namespace, row.uid)


def identity_text(row: Any) -> str:
    """Returns `Identity.text` of such a row."""
    return identity_of(row).text


def row_of(run: Run) -> dict[str, Any]:
    """Returns the row of a run in `runs`, without the store's own key."""
    plain = {name: getattr(run, name) for name in _PLAIN}
    return {
        **identity_columns(run.identity),
        **{name: indexed(value) if isinstance(value, str) else value for name, value in plain.items()},
        "ending": run.ending.value,
        "message": message(run.message),
        "waited_for_text": message(run.waited_for_text),
        "search": folded(run.name, run.display_name),
        "closed_at": closed_at(run),
    }


def closed_at(run: Run) -> datetime | None:
    """Returns when the run counts as over for the retention; None while it is open.

    The writer of the end has a clock of its own: an end in the future would keep the run for ever.
    """
    if run.ending is Ending.OPEN:
        return None
    return min(run.ended_at or run.observed_at, run.observed_at)


def run_of(row: Row[Any] | tuple[Any, ...]) -> Run:
    """Returns the run of a row with `columns`."""
    values: tuple[Any, ...] = tuple(row)
    _, cluster, namespace, uid, ending, text, waited_for, *plain, label_json = values
    return Run(
        identity=Identity(cluster, namespace, uid),
        ending=Ending(ending),
        message=text,
        waited_for_text=waited_for,
        labels=orjson.loads(label_json) if label_json else {},
        **dict(zip(_PLAIN, plain, strict=True)),
    )


def label_rows(run: Run) -> list[dict[str, Any]]:
    """Returns the rows of the run's labels, without the run's key."""
    return [{"name": indexed(name), "value": indexed(value)} for name, value in sorted(run.labels.items())]
