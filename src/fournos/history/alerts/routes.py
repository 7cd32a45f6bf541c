"""Where a message goes: the lines of the file of FOURNOS_HISTORY_WEBHOOK_URL_FILE.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from yarl import URL

from fournos.engine.runtime.selector import matcher
from fournos.history.records import Run


@dataclass(frozen=True, slots=True)
class WebhookRoute:
    """One line: `SELECTOR URL`, or only a URL."""

    selector: str
    """In the syntax of label selectors; "" for all messages."""
    url: URL = field(repr=False)

    def takes(self, facts: Mapping[str, str]) -> bool:
        return matcher(self.selector)(facts)


def routes(text: str) -> list[WebhookRoute]:
    """Returns the routes of a file; lines that begin with # are comments.

    Raises ValueError, whose text has no URL, if there is none or a line is wrong.
    """
    webhook_routes = [
        _route(number, line)
        for number, line in enumerate(map(str.strip, text.splitlines()), start=1)
        if line and not line.startswith("#")
    ]
    if not webhook_routes:
        raise ValueError("the file of FOURNOS_HISTORY_WEBHOOK_URL_FILE has no URL of http or https")
    return webhook_routes


def chosen(webhook_routes: Sequence[WebhookRoute], run: Run | None) -> WebhookRoute | None:
    """Returns the first route that takes messages about a run, None: its row has expired; None without one.

    A selector sees the labels of the job, and `owner`, `namespace` and `cluster`.
    """
    facts: dict[str, str] = {}
    if run is not None:
        places = {"owner": run.owner, "namespace": run.identity.namespace, "cluster": run.target}
        facts = {**run.labels, **{name: value for name, value in places.items() if value}}
    return next((route for route in webhook_routes if route.takes(facts)), None)


def _route(number: int, line: str) -> WebhookRoute:
    selector, _, text = line.rpartition(" ")
    try:
        matcher(selector)
    except ValueError:
        raise ValueError(f"line {number} of the webhook's file begins with no label selector") from None
    try:
        url = URL(text, encoded=True)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"line {number} of the webhook's file has no URL of http or https")
    return WebhookRoute(selector.strip(), url)
