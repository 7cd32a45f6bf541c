"""The KPIs of a run over the runs that can be compared with it: change points, baseline, acknowledgements."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from fournos.web.errors import PageError
from fournos.web.recorded_namespaces import RUNS as RECORDED
from fournos.web.routes import Action, Call, Done, Page
from fournos.web.runs.subject import address
from fournos.web.runs.trending import trend_rows


async def gather(call: Call) -> Mapping[str, Any]:
    namespace, name = call.path["namespace"], call.path["name"]
    kpi, may = call.query.get("kpi", "").strip()[:200], call.viewer.rights.may
    history = call.viewer.client.history
    trends, pins, unpins, acknowledges, withdraws = await asyncio.gather(
        history.trends(name, kpi=kpi, namespace=namespace),
        may("update", RECORDED, namespace, subresource="baseline"),
        may("delete", RECORDED, namespace, subresource="baseline"),
        may("create", RECORDED, namespace, subresource="acknowledgements"),
        may("delete", RECORDED, namespace, subresource="acknowledgements"),
    )
    rows, more = trend_rows(trends)
    run = trends.run
    return {
        "found": trends,
        "run": run,
        "namespace": namespace,
        "link": address(namespace, run.name, uid=run.identity.uid),
        "here": f"/trends/{namespace}/{run.identity.uid}",
        "kpi": kpi,
        "rows": rows,
        "more": more,
        "pinned": trends.baseline is not None and trends.baseline.run.identity == run.identity,
        "pins": pins,
        "unpins": unpins,
        "acknowledges": acknowledges,
        "withdraws": withdraws,
    }


def _here(call: Call) -> str:
    return f"/trends/{call.path['namespace']}/{call.path['name']}"


async def pin(call: Call, form: Mapping[str, str]) -> Done:
    history, namespace = call.viewer.client.history, call.path["namespace"]
    run = (await history.run(call.path["name"], namespace=namespace)).run
    await history.pin(run, reason=form.get("reason", "").strip()[:1024])
    return Done(_here(call), f"{run.name} is the baseline: fournos baseline pin -n {namespace} {run.name}")


async def unpin(call: Call, form: Mapping[str, str]) -> Done:
    history = call.viewer.client.history
    run = (await history.run(call.path["name"], namespace=call.path["namespace"])).run
    await history.unpin(run)
    return Done(_here(call), f"{run.name} is no longer the baseline.")


async def acknowledge(call: Call, form: Mapping[str, str]) -> Done:
    reason, run = form.get("reason", "").strip(), form.get("run", "")
    if not reason:
        raise PageError(422, "A reason is needed", "It is shown with the change.", "Go back and write one.")
    acknowledged = await call.viewer.client.history.acknowledge(
        run, reason[:1024], kpi=form.get("kpi", ""), namespace=call.path["namespace"]
    )
    return Done(_here(call), f"Acknowledged: {len(acknowledged)} changed KPIs.")


async def withdraw(call: Call, form: Mapping[str, str]) -> Done:
    await call.viewer.client.history.withdraw(
        form.get("run", ""), kpi=form.get("kpi", ""), namespace=call.path["namespace"]
    )
    return Done(_here(call), "The acknowledgement is withdrawn.")


PAGE: Final = Page(
    name="trends",
    title="Trends",
    path="/trends/{namespace}/{name}",
    gather=gather,
    in_nav=False,
    under="/benchmarks",
    shared=False,
    command="fournos trend -n {namespace} {name}",
)
ACTIONS: Final = tuple(
    Action(name=f"{act.__name__} trend", path=f"/trends/{{namespace}}/{{name}}/{act.__name__}", act=act)
    for act in (pin, unpin, acknowledge, withdraw)
)
