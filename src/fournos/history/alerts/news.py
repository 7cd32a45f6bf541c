"""What is announced: confirmed changes of a fingerprint, and the words of it.  Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import orjson

from fournos.engine.kube.resource import Obj, Resource, key_of
from fournos.engine.runtime.decision import EventRecord
from fournos.engine.runtime.events import MAX_NOTE, event_body
from fournos.history.records import Run
from fournos.history.regressions.review import RECENT, SeriesReview, covering, is_open
from fournos.history.regressions.series import (
    Finding,
    FindingGroup,
    Kind,
    SeriesState,
    group,
    runs_in_order,
)
from fournos.history.store.rows import message
from fournos.insight.values import count

SHOWN: Final = 20
"""KPIs of one message; of more their number is sent."""
CAUSES: Final = 5
_NOTED: Final = 3
"""KPIs of one Event; of more their number is shown."""
_LONGEST: Final = 200
_LABELS: Final = 16
_CONTROLLER: Final = "fournos.dev/history"


@dataclass(frozen=True, slots=True)
class KindWords:
    """How a confirmed change of a kind is called."""

    state: str
    """In the JSON of a message."""
    title: str
    reason: str
    """Of the Event."""
    verdict: str


WORDS: Final = {
    Kind.REGRESSION: KindWords("Confirmed", "Regression confirmed", "RegressionConfirmed", "worse"),
    Kind.IMPROVEMENT: KindWords("Improved", "Improvement confirmed", "ImprovementConfirmed", "better"),
    Kind.CHANGE: KindWords("Changed", "Change confirmed", "ChangeConfirmed", "changed"),
}


@dataclass(frozen=True, slots=True)
class Announced:
    """What is remembered of a change that was announced."""

    series: str
    run: str
    at: datetime
    rises: bool
    made_at: datetime


@dataclass(frozen=True, slots=True)
class News:
    """One message: the changes that began with a run."""

    namespace: str
    namespace_uid: str
    fingerprint: str
    kind: Kind
    """The worst of them."""
    run: str
    at: datetime
    before: str
    """The comparable run before that; "" if there is none."""
    changes: tuple[Finding, ...]

    @property
    def id(self) -> str:
        """The same when it is sent again."""
        parts = sorted(f"{one.series} {one.run} {one.rises} {one.kind}" for one in self.changes)
        text = "\n".join((self.namespace_uid, self.fingerprint, *parts))
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class NewsContext:
    """The stored runs that a message is about; None if the row has expired."""

    run: Run | None
    before: Run | None = None
    causes: Sequence[str] = ()
    """What changed in the provenance between the two."""


def due(review: SeriesReview, announced: Sequence[Announced], now: datetime) -> list[News]:
    """Returns the messages that are to be sent, the oldest run first.

    Acknowledged changes are left out, and those that were announced at this place of the series: a change
    point that later runs move by one or two is the same verdict.
    """
    order, covered = runs_in_order(review.series), review.covered
    by_id = {one.id: one for one in review.series}

    def is_due(finding: Finding) -> bool:
        return (
            finding.state is SeriesState.CONFIRMED
            and now - finding.at <= RECENT
            and is_open(finding, covered.get(finding.id))
            and covering(finding, by_id[finding.series], announced, review.pinned_at) is None
        )

    joined = group(filter(is_due, review.report.findings), order)
    return sorted((_of_group(review, each, order) for each in joined), key=lambda news: (news.at, news.id))


def _of_group(review: SeriesReview, joined: FindingGroup, order: Sequence[str]) -> News:
    place = order.index(joined.run)
    return News(
        review.run.identity.namespace,
        review.run.namespace_uid,
        review.run.fingerprint,
        joined.kind,
        joined.run,
        min(one.at for one in joined.findings),
        order[place - 1] if place else "",
        joined.findings,
    )


# --- words -----------------------------------------------------------------------------------------------


def name_of(news: News, context: NewsContext) -> str:
    """Returns the name of the run, or its UID when its row has expired."""
    return short(context.run.name if context.run else news.run.split("/", 2)[2])


def commands(news: News, context: NewsContext) -> list[str]:
    """Returns the commands that show the change: compared with the run before, and over all runs."""
    namespace, name = short(news.run.split("/", 2)[1]), name_of(news, context)
    before = [short(context.before.name)] if context.before else []
    compare = [f"fournos compare -n {namespace} {one} {name}" for one in before]
    return [*compare, f"fournos trend -n {namespace} {name}"]


def line(finding: Finding) -> str:
    """Returns the KPI, its change, and how many runs it is compared with."""
    percent = "from 0" if finding.change is None else f"{100 * finding.change:+.1f}%"
    where = ", ".join(f"{key}={value}" for key, value in labels(finding).items())
    name = f"{short(finding.kpi_id)} ({where})" if where else short(finding.kpi_id)
    values = f"{finding.before:g} to {finding.after:g} {short(finding.unit)}".rstrip()
    verdict, earlier = WORDS[finding.kind].verdict, count(finding.earlier, "earlier run")
    return f"{name}: {percent}, {verdict} ({values}; compared with {earlier})"


def labels(found: Finding) -> dict[str, str]:
    return {short(key): short(found.labels[key]) for key in sorted(found.labels)[:_LABELS]}


def short(text: str) -> str:
    """Returns the text without what looks like a secret and without control characters, not too long."""
    plain = "".join(char if char.isprintable() else " " for char in message(text))
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}…"


def body(news: News, context: NewsContext, *, page: str = "") -> bytes:
    """Returns the JSON: `text` for Slack and receivers of its format, `fournos` for programs.

    `page` is the address of the page.
    """
    cluster_id, namespace, uid = (short(part) for part in news.run.split("/", 2))
    run = context.run
    data = {
        "id": news.id,
        "state": WORDS[news.kind].state,
        "at": news.at,
        "fingerprint": short(news.fingerprint),
        "run": {
            "name": name_of(news, context),
            "uid": uid,
            "namespace": namespace,
            "cluster": short(run.target) if run else "",
            "clusterId": cluster_id,
            "owner": short(run.owner) if run else "",
        },
        "changes": [_change(change) for change in news.changes[:SHOWN]],
        "more": max(0, len(news.changes) - SHOWN),
        "causes": [short(cause) for cause in context.causes[:CAUSES]],
        "commands": commands(news, context),
        "page": f"{page.rstrip('/')}/trends/{namespace}/{uid}" if page else "",
    }
    return orjson.dumps({"text": _text(news, data), "fournos": data}, option=orjson.OPT_UTC_Z)


def _change(finding: Finding) -> dict[str, Any]:
    return {
        "kpi": short(finding.kpi_id),
        "state": WORDS[finding.kind].state,
        "direction": "rises" if finding.rises else "falls",
        "before": finding.before,
        "after": finding.after,
        "changePercent": None if finding.change is None else round(100 * finding.change, 2),
        "comparedRuns": finding.earlier,
        "unit": short(finding.unit),
        "labels": labels(finding),
    }


def _text(news: News, data: dict[str, Any]) -> str:
    run = data["run"]
    of = [f"{key} {run[key]}" for key in ("owner", "cluster") if run[key]]
    title = f"{WORDS[news.kind].title} in {run['namespace']}, since {run['name']}"
    lines = [f"{title} ({', '.join(of)})" if of else title]
    lines += [f"• {line(change)}" for change in news.changes[:SHOWN]]
    lines += [f"• {data['more']} more" for _ in range(data["more"] > 0)]
    lines += [f"Changed with it: {cause}" for cause in data["causes"]]
    lines += [data["page"]] if data["page"] else []
    return _escaped("\n".join((*lines, *data["commands"])))


def _escaped(text: str) -> str:
    """Escapes the characters that enclose Slack's own commands, such as the mention of a whole channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def event(
    news: News, context: NewsContext, resource: Resource, obj: Obj, now: datetime, instance: str
) -> Obj:
    """Returns the Event about the object."""
    type_: Literal["Normal", "Warning"] = "Warning" if news.kind is Kind.REGRESSION else "Normal"
    return event_body(
        resource,
        obj,
        EventRecord(type_, WORDS[news.kind].reason, note(news, context)),
        name=f"{key_of(obj).name[:200].rstrip('.-')}.{news.id[:16]}",
        at=now,
        controller=_CONTROLLER,
        instance=instance,
        action="Compare",
    )


def note(news: News, context: NewsContext) -> str:
    """Returns the text: the changes, and at its end the command that shows more, whatever their length."""
    lines = [line(one) for one in news.changes[:_NOTED]]
    if len(news.changes) > _NOTED:
        lines.append(f"and {count(len(news.changes) - _NOTED, 'more KPI')}")
    last = f". See: {commands(news, context)[0]}"
    text = f"{WORDS[news.kind].title}: {'; '.join(lines)}"
    room = MAX_NOTE - len(last)
    return f"{text if len(text) <= room else f'{text[: room - 1]}…'}{last}"
