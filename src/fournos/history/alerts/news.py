"""What is announced of the verdicts of a fingerprint, and the words of it.  Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import groupby
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
    Silence,
    group,
    runs_in_order,
    silences,
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


class NewsVerdict(StrEnum):
    CONFIRMED = "Confirmed"
    IMPROVED = "Improved"
    CHANGED = "Changed"
    """Confirmed, of a KPI whose direction is not stated."""
    SILENT = "Silent"


VERDICTS: Final = {
    Kind.REGRESSION: NewsVerdict.CONFIRMED,
    Kind.IMPROVEMENT: NewsVerdict.IMPROVED,
    Kind.CHANGE: NewsVerdict.CHANGED,
}


TITLES: Final = {
    NewsVerdict.CONFIRMED: "Regression confirmed",
    NewsVerdict.IMPROVED: "Improvement confirmed",
    NewsVerdict.CHANGED: "Change confirmed",
    NewsVerdict.SILENT: "Results have stopped",
}
_JUDGED: Final = {NewsVerdict.CONFIRMED: "worse", NewsVerdict.IMPROVED: "better"}
REASONS: Final = {
    NewsVerdict.CONFIRMED: "RegressionConfirmed",
    NewsVerdict.IMPROVED: "ImprovementConfirmed",
    NewsVerdict.CHANGED: "ChangeConfirmed",
}


@dataclass(frozen=True, slots=True)
class NewsMark:
    """One series of a message."""

    series: str
    run: str
    at: datetime
    rises: bool
    state: NewsVerdict


@dataclass(frozen=True, slots=True)
class Announced(NewsMark):
    """What is remembered of a series that was announced."""

    made_at: datetime


@dataclass(frozen=True, slots=True)
class News:
    """One message: the changes that began with a run, or the series whose last run it is."""

    namespace: str
    namespace_uid: str
    fingerprint: str
    verdict: NewsVerdict
    """The worst of them."""
    run: str
    at: datetime
    before: str
    """The comparable run before that; "" if there is none."""
    changes: tuple[Finding, ...] = ()
    silent: tuple[Silence, ...] = ()

    @property
    def marks(self) -> tuple[NewsMark, ...]:
        return (
            *(
                NewsMark(change.series, change.run, change.at, change.rises, VERDICTS[change.kind])
                for change in self.changes
            ),
            *(
                NewsMark(silence.series, silence.last_run, silence.last_at, False, NewsVerdict.SILENT)
                for silence in self.silent
            ),
        )

    @property
    def id(self) -> str:
        """The same when it is sent again."""
        parts = sorted(f"{one.series} {one.run} {one.rises} {one.state}" for one in self.marks)
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
    order = runs_in_order(review.series)
    messages = [
        *(_of_group(review, group, order) for group in _groups(review, announced, order, now)),
        *_silent(review, announced, now),
    ]
    return sorted(messages, key=lambda news: (news.at, news.id))


def _groups(
    review: SeriesReview, announced: Sequence[Announced], order: Sequence[str], now: datetime
) -> Iterable[FindingGroup]:
    by_id, covered = {one.id: one for one in review.series}, review.covered
    changes = [one for one in announced if one.state is not NewsVerdict.SILENT]

    def open_(finding: Finding) -> bool:
        return (
            finding.state is SeriesState.CONFIRMED
            and now - finding.at <= RECENT
            and is_open(finding, covered.get(finding.id))
            and covering(finding, by_id[finding.series], changes, review.pinned_at) is None
        )

    return group(filter(open_, review.report.findings), order)


def _of_group(review: SeriesReview, joined: FindingGroup, order: Sequence[str]) -> News:
    place = order.index(joined.run)
    return News(
        *_benchmark(review),
        VERDICTS[joined.kind],
        joined.run,
        min(one.at for one in joined.findings),
        order[place - 1] if place else "",
        changes=joined.findings,
    )


def _benchmark(review: SeriesReview) -> tuple[str, str, str]:
    return review.run.identity.namespace, review.run.namespace_uid, review.run.fingerprint


def _silent(review: SeriesReview, announced: Sequence[Announced], now: datetime) -> Iterable[News]:
    # A last run that expires makes an earlier one the last: no news.
    newest = dict(
        sorted(
            (announcement.series, announcement.at)
            for announcement in announced
            if announcement.state is NewsVerdict.SILENT
        )
    )
    open_ = [
        silence
        for silence in silences(review.series, now)
        if silence.series not in newest or silence.last_at > newest[silence.series]
    ]
    open_.sort(key=lambda silence: (silence.last_at, silence.last_run, silence.series))
    for (at, run), each in groupby(open_, key=lambda silence: (silence.last_at, silence.last_run)):
        yield News(*_benchmark(review), NewsVerdict.SILENT, run, at, "", silent=tuple(each))


# --- words -----------------------------------------------------------------------------------------------


def name_of(news: News, context: NewsContext) -> str:
    """Returns the name of the run, or its UID when its row has expired."""
    return short(context.run.name if context.run else news.run.split("/", 2)[2])


def commands(news: News, context: NewsContext) -> list[str]:
    """Returns the commands that show the change: compared with the run before, and over all runs."""
    namespace, name = short(news.run.split("/", 2)[1]), name_of(news, context)
    before = [short(context.before.name)] if context.before and not news.silent else []
    compare = [f"fournos compare -n {namespace} {one} {name}" for one in before]
    return [*compare, f"fournos trend -n {namespace} {name}"]


def line(finding: Finding) -> str:
    """Returns the KPI, its change, and how many runs it is compared with."""
    percent = "from 0" if finding.change is None else f"{100 * finding.change:+.1f}%"
    where = ", ".join(f"{key}={value}" for key, value in labels(finding).items())
    name = f"{short(finding.kpi_id)} ({where})" if where else short(finding.kpi_id)
    values = f"{finding.before:g} to {finding.after:g} {short(finding.unit)}".rstrip()
    verdict = _JUDGED.get(VERDICTS[finding.kind], "changed")
    return f"{name}: {percent}, {verdict} ({values}; compared with {count(finding.earlier, 'earlier run')})"


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
        "state": str(news.verdict),
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
        "silent": [
            {"kpi": short(silence.kpi_id), "reason": short(silence.reason), "lastAt": silence.last_at}
            for silence in news.silent[:SHOWN]
        ],
        "more": max(0, len(news.changes) + len(news.silent) - SHOWN),
        "causes": [short(cause) for cause in context.causes[:CAUSES]],
        "commands": commands(news, context),
        "page": f"{page.rstrip('/')}/trends/{namespace}/{uid}" if page else "",
    }
    return orjson.dumps({"text": _text(news, data), "fournos": data}, option=orjson.OPT_UTC_Z)


def _change(finding: Finding) -> dict[str, Any]:
    return {
        "kpi": short(finding.kpi_id),
        "state": str(VERDICTS[finding.kind]),
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
    since = "last" if news.verdict is NewsVerdict.SILENT else "since"
    title = f"{TITLES[news.verdict]} in {run['namespace']}, {since} {run['name']}"
    lines = [f"{title} ({', '.join(of)})" if of else title]
    lines += [f"• {line(change)}" for change in news.changes[:SHOWN]]
    lines += [f"• {silence['kpi']}: {silence['reason']}" for silence in data["silent"]]
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
    type_: Literal["Normal", "Warning"] = "Warning" if news.verdict is NewsVerdict.CONFIRMED else "Normal"
    return event_body(
        resource,
        obj,
        EventRecord(type_, REASONS[news.verdict], note(news, context)),
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
    text = f"{TITLES[news.verdict]}: {'; '.join(lines)}"
    room = MAX_NOTE - len(last)
    return f"{text if len(text) <= room else f'{text[: room - 1]}…'}{last}"
