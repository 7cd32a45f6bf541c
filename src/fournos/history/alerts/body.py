"""The body of an outgoing webhook, and its signature.  Pure."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, Final

import orjson

from fournos.history.alerts.due import VERDICTS, News, NewsVerdict
from fournos.history.alerts.receiver import NewsContext
from fournos.history.alerts.words import TITLES, commands, labels, line, name_of, short
from fournos.history.regressions.series import Finding

SHOWN: Final = 20
"""KPIs of one message; of more their number is sent."""
CAUSES: Final = 5


TEST: Final = "A test of Fournos: messages about results arrive here."


def sample() -> bytes:
    """Returns the JSON of a message that is about nothing."""
    return orjson.dumps({"text": TEST, "fournos": {"state": "Test"}})


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


def signature(secret: bytes, sent_at: int, content: bytes) -> str:
    """Returns the header X-Fournos-Signature; with the time, an old message cannot be sent again."""
    digest = hmac.new(secret, f"{sent_at}.".encode() + content, hashlib.sha256).hexdigest()
    return f"t={sent_at},v1={digest}"


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
