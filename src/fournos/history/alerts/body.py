"""The body of an outgoing webhook, and its signature.  Pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from fournos.history.alerts.due import VERDICTS, News, Verdict
from fournos.history.records import Run
from fournos.history.regressions.series import Finding
from fournos.history.store.text import message

SHOWN: Final = 20
"""KPIs of one message; of more their number is sent."""
CAUSES: Final = 5
_LONGEST: Final = 200
_LABELS: Final = 16
_TITLES: Final = {
    Verdict.CONFIRMED: "Regression confirmed",
    Verdict.IMPROVED: "Improvement confirmed",
    Verdict.CHANGED: "Change confirmed",
    Verdict.SILENT: "Results have stopped",
}


@dataclass(frozen=True, slots=True)
class Context:
    """What the history knows of the runs of a message; None: the row has expired."""

    run: Run | None
    before: Run | None = None
    causes: Sequence[str] = ()
    """What changed in the provenance between the two."""


def body(news: News, context: Context) -> bytes:
    """Returns the JSON: `text` for Slack and what takes its messages, `fournos` for programs."""
    cluster_id, namespace, uid = (_short(part) for part in news.run.split("/", 2))
    run = context.run
    name = _short(run.name) if run else uid
    commands = _commands(news, context, namespace, name)
    data = {
        "id": news.id,
        "state": str(news.verdict),
        "at": news.at,
        "fingerprint": _short(news.fingerprint),
        "run": {
            "name": name,
            "uid": uid,
            "namespace": namespace,
            "cluster": _short(run.target) if run else "",
            "clusterId": cluster_id,
            "owner": _short(run.owner) if run else "",
        },
        "changes": [_change(one) for one in news.changes[:SHOWN]],
        "silent": [
            {"kpi": _short(one.kpi_id), "reason": _short(one.reason), "lastAt": one.last_at}
            for one in news.silent[:SHOWN]
        ],
        "more": max(0, len(news.changes) + len(news.silent) - SHOWN),
        "causes": [_short(one) for one in context.causes[:CAUSES]],
        "commands": commands,
    }
    return orjson.dumps({"text": _text(news, data), "fournos": data}, option=orjson.OPT_UTC_Z)


def signature(secret: bytes, sent_at: int, content: bytes) -> str:
    """Returns the header X-Fournos-Signature; with the time, an old message cannot be sent again."""
    digest = hmac.new(secret, f"{sent_at}.".encode() + content, hashlib.sha256).hexdigest()
    return f"t={sent_at},v1={digest}"


def _change(found: Finding) -> dict[str, Any]:
    return {
        "kpi": _short(found.kpi_id),
        "state": str(VERDICTS[found.kind]),
        "direction": "rises" if found.rises else "falls",
        "before": found.before,
        "after": found.after,
        "changePercent": None if found.change is None else round(100 * found.change, 2),
        "unit": _short(found.unit),
        "labels": {_short(key): _short(found.labels[key]) for key in sorted(found.labels)[:_LABELS]},
    }


def _commands(news: News, context: Context, namespace: str, name: str) -> list[str]:
    before = [_short(context.before.name)] if context.before else []
    compare = [f"fournos compare -n {namespace} {one} {name}" for one in before if not news.silent]
    return [*compare, f"fournos trend -n {namespace} {name}"]


def _text(news: News, data: dict[str, Any]) -> str:
    run = data["run"]
    of = [f"{key} {run[key]}" for key in ("owner", "cluster") if run[key]]
    since = "last" if news.verdict is Verdict.SILENT else "since"
    title = f"{_TITLES[news.verdict]} in {run['namespace']}, {since} {run['name']}"
    lines = [f"{title} ({', '.join(of)})" if of else title]
    lines += [f"• {_line(one)}" for one in data["changes"]]
    lines += [f"• {one['kpi']}: {one['reason']}" for one in data["silent"]]
    lines += [f"• {data['more']} more" for _ in range(data["more"] > 0)]
    lines += [f"Changed with it: {one}" for one in data["causes"]]
    return _escaped("\n".join((*lines, *data["commands"])))


def _line(change: dict[str, Any]) -> str:
    percent = "from 0" if change["changePercent"] is None else f"{change['changePercent']:+.1f}%"
    unit = f" {change['unit']}" if change["unit"] else ""
    labels = ", ".join(f"{key}={value}" for key, value in change["labels"].items())
    verdict = {"Confirmed": "worse", "Improved": "better"}.get(change["state"], "changed")
    where = f" ({labels})" if labels else ""
    return f"{change['kpi']}{where}: {percent}, {verdict} ({change['before']:g} to {change['after']:g}{unit})"


def _escaped(text: str) -> str:
    """Slack's own commands, such as a mention of a whole channel, stand between these characters."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _short(text: str) -> str:
    """Returns the text without what looks like a secret and without control characters, not too long."""
    line = "".join(char if char.isprintable() else " " for char in message(text))
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
