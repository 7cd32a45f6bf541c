"""One cluster: its GPUs, its lock, what runs on it and waits for it; lock, unlock, drain, undrain."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.client.clusters import AsyncCluster
from fournos.insight import fleet
from fournos.insight.values import Key
from fournos.web.errors import ASK, PageError
from fournos.web.site import Action, Call, Done, Page, Written


async def gather(call: Call) -> Mapping[str, Any]:
    site, name = call.site, call.path["name"]
    where = site.clusters_namespace
    fleet_read = await fleet.read(call.viewer.source, site.jobs_namespace, where, call.now)
    card = next((one for one in fleet_read.clusters if one.name == name), None)
    cluster = None
    if card is None or card.health:  # otherwise only Kueue's quota names it
        cluster = await call.viewer.source.get(FOURNOS_CLUSTER, Key(where, name))
    if card is None:
        raise PageError(403, "You may not see this", "You may not list the clusters.", ASK)
    return {
        "card": card,
        "details": fleet.details(cluster) if cluster else None,
        "waiting": [job for job in fleet_read.waiting if job.cluster == name],
        "may": await call.viewer.rights.may("patch", FOURNOS_CLUSTER, where, name=name),
        "commands": {
            verb: f"fournos cluster {verb} -n {where} {shlex.quote(name)}" for verb in ("unlock", "drain")
        },
        "jobs_namespace": site.jobs_namespace,
        # Hearth's commands know FournosClusters alone.
        "command": "fournos cluster " + (f"get -n {where} {shlex.quote(name)}" if cluster else "list"),
        "owner": call.viewer.client.owner,
    }


PAGE: Final = Page(
    name="cluster",
    title="Cluster",
    path="/clusters/{name}",
    gather=gather,
    watched=fleet.KINDS,
    in_nav=False,
    under="/",
    shared=False,
)


def _action(name: str, act: Callable[[AsyncCluster, Mapping[str, str]], Awaitable[str]]) -> Action:
    async def acted(call: Call, form: Mapping[str, str]) -> Done:
        cluster = await call.viewer.client.cluster(call.path["name"], namespace=call.site.clusters_namespace)
        notice = await act(cluster, form)
        return Done(f"/clusters/{call.path['name']}", notice, Written(FOURNOS_CLUSTER, cluster.raw))

    return Action(name=name, path=f"/clusters/{{name}}/{name.split()[0]}", act=acted)


async def _lock(cluster: AsyncCluster, form: Mapping[str, str]) -> str:
    owner = form.get("owner", "").strip() or None
    await cluster.lock(
        owner=owner, ttl=form.get("ttl", "").strip() or None, drain=form.get("drain") or None, timeout=0
    )
    return f"The lock of {cluster.name} is requested{f' for {owner}' if owner else ''}."


async def _unlock(cluster: AsyncCluster, _: Mapping[str, str]) -> str:
    await cluster.unlock(timeout=0)
    return f"{cluster.name} is being unlocked."


async def _drain(cluster: AsyncCluster, form: Mapping[str, str]) -> str:
    stop = form.get("stop") == "true"
    await cluster.drain(stop=stop, timeout=0)
    end = "are shut down" if stop else "end by themselves"
    return f"{cluster.name} takes no more jobs; those that run {end}."


async def _undrain(cluster: AsyncCluster, _: Mapping[str, str]) -> str:
    await cluster.undrain()
    return f"{cluster.name} takes jobs again."


async def _discover(cluster: AsyncCluster, _: Mapping[str, str]) -> str:
    await cluster.discover(timeout=0)
    return f"The GPUs of {cluster.name} are being counted again."


ACTIONS: Final = (
    _action("lock cluster", _lock),
    _action("unlock cluster", _unlock),
    _action("drain cluster", _drain),
    _action("undrain cluster", _undrain),
    _action("discover cluster", _discover),
)
