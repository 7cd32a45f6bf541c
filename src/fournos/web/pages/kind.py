"""One object of the other kinds: its state, its parts, and why it waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fournos.engine.kube.resource import Key
from fournos.insight.sheets import sheet
from fournos.web.routes import Call, Page


async def gather(call: Call) -> Mapping[str, Any]:
    key = Key(call.path["namespace"], call.path["name"])
    return {"sheet": await sheet(call.viewer.client.api, call.path["kind"], key, call.now)}


PAGE: Final = Page(
    name="kind",
    title="Object",
    path="/kinds/{kind}/{namespace}/{name}",
    gather=gather,
    in_nav=False,
    shared=False,
)
