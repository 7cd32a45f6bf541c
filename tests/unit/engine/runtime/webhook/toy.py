"""Webhooks of a made-up kind, and pairs of certificates that cost nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fournos.engine.api.rules import Violation
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.decision import Facts, LiveGet, Present
from fournos.engine.runtime.webhook.registration import Service
from fournos.engine.runtime.webhook.review import Request, Review, Webhook
from tests.unit.engine.runtime.toy import TOY

START = datetime(2030, 1, 1, tzinfo=UTC)
SERVICE = Service("ns", "hooks")


def require_another(request: Request, facts: Facts) -> Review:
    """Only where an object called other is."""
    found = facts.require(LiveGet(TOY, Key(request.key.namespace, "other")))
    if isinstance(found, Present):
        return Review()
    return Review((Violation("spec", type(found).__name__, "other"),))


def webhook(review: Any = require_another, **changes: Any) -> Webhook:
    fields: dict[str, Any] = {
        "kind": "validating",
        "name": "toys.fournos.dev",
        "configuration": "fournos-toys",
        "path": "/toys",
        "resources": (TOY,),
        "operations": ("CREATE", "UPDATE"),
        "review": review,
    }
    return Webhook(**{**fields, **changes})
