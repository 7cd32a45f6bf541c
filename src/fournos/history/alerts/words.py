"""The words of an announcement: each change in a line, and the commands that show more.  Pure."""

from __future__ import annotations

from typing import Final

from fournos.history.alerts.due import VERDICTS, News, NewsVerdict
from fournos.history.alerts.receiver import NewsContext
from fournos.history.regressions.series import Finding
from fournos.history.store.text import message
from fournos.insight.values import count

TITLES: Final = {
    NewsVerdict.CONFIRMED: "Regression confirmed",
    NewsVerdict.IMPROVED: "Improvement confirmed",
    NewsVerdict.CHANGED: "Change confirmed",
    NewsVerdict.SILENT: "Results have stopped",
}
_JUDGED: Final = {NewsVerdict.CONFIRMED: "worse", NewsVerdict.IMPROVED: "better"}
_LONGEST: Final = 200
_LABELS: Final = 16


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
