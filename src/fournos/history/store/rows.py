"""Runs and their parts as rows of the tables, and back, without secrets.  Pure."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, Final

import orjson
from sqlalchemy import BigInteger, ColumnElement, Row, Text, cast, func, select, type_coerce

from fournos.engine.runtime.logs import redact, redact_beginning
from fournos.history.records import Ending, Identity, Run, Scope
from fournos.history.store.schema import labels, runs

_REFUSED: Final = re.compile("[\x00\ud800-\udfff]")
"""PostgreSQL stores no NUL, and no encoding has lone surrogates."""
INDEXED: Final = 512
_MESSAGE: Final = 4096
_CACHED: Final = 200
"""Longer strings are not cached: the cache stays below some megabytes."""


def clean(text: str) -> str:
    """Returns the text with a mark (U+FFFD) for each character that cannot be stored."""
    if text.isascii() and "\0" not in text:  # nearly every text, in a fraction of the time
        return text
    return _REFUSED.sub("\ufffd", text)


def indexed(text: str) -> str:
    """Returns the text as it is stored, and looked for, in a column with an index.

    An index has no room for entries of any length; names in Kubernetes are shorter than this.
    """
    return clean(text)[:INDEXED]


def message(text: str) -> str:
    """Returns a text for people as it is stored: cleaned, without what looks like a secret, not too long."""
    hidden = redact_beginning(clean(text), _MESSAGE + 1)
    return hidden if len(hidden) <= _MESSAGE else f"{hidden[:_MESSAGE]}…"


def pack(document: Any) -> bytes:
    """Returns a JSON value as it is stored: cleaned, redacted, compressed."""
    return zlib.compress(orjson.dumps(_safe(document), option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z), 6)


def unpack(data: bytes) -> Any:
    return orjson.loads(zlib.decompress(data))


def folded(*texts: str) -> str:
    """Returns the texts in the form that a search compares: without case."""
    return indexed("\n".join(text for text in texts if text).casefold())


def _safe(value: Any, key: str = "") -> Any:
    if isinstance(value, str):
        return _safe_string(key, value) if len(value) <= _CACHED else _hide(key, clean(value))
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Mapping):
        safe = {(name := clean(str(each))): _safe(inner, name) for each, inner in value.items()}
        variable = value.get("name")
        if isinstance(variable, str) and "value" in value:
            # An environment variable is two fields: {name: API_TOKEN, value: …}.
            safe["value"] = _safe(value["value"], variable)
        return safe
    if isinstance(value, list | tuple):
        return [_safe(inner, key) for inner in value]
    return value


# A job is written at each of its phases, nearly the same each time.
@lru_cache(maxsize=16_384)
def _safe_string(key: str, value: str) -> str:
    return _hide(key, clean(value))


def _hide(key: str, value: str) -> str:
    """Returns the value without secrets, which the key may point at: `password: x`."""
    alone = redact(value)
    if not key:
        return alone
    prefix = f"{clean(key)}: "
    together = redact(prefix + alone)
    return together.removeprefix(prefix)


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


def within(scope: Scope) -> list[ColumnElement[bool]]:
    """Returns the conditions of the runs that a scope includes."""
    conditions: list[ColumnElement[bool]] = []
    if scope.namespaces is not None:
        conditions.append(runs.c.namespace_uid.in_(list(map(indexed, scope.namespaces))))
    if scope.cluster:
        conditions.append(runs.c.cluster == indexed(scope.cluster))
    return conditions


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


def row_of(run: Run) -> dict[str, Any]:
    """Returns the row of a run in `runs`, without the store's own key."""
    plain = {name: getattr(run, name) for name in _PLAIN}
    return {
        **identity_columns(run.identity),
        **{name: _column(name, value) for name, value in plain.items()},
        "ending": run.ending.value,
        "message": message(run.message),
        "waited_for_text": message(run.waited_for_text),
        "search": folded(run.name, run.display_name),
        "closed_at": closed_at(run),
    }


def _column(name: str, value: Any) -> Any:
    """Returns a value as its column takes it: objects may have numbers of any size."""
    if isinstance(value, str):
        return indexed(value)
    if not isinstance(value, int):
        return value
    most = 2**63 - 1 if isinstance(runs.c[name].type, BigInteger) else 2**31 - 1
    return max(-most, min(value, most))


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
