"""FournosClusters that opt in, on real clusters: Kueue itself connects to what is made for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.api.conditions import condition
from fournos.engine.kube.resource import EVENT, SECRET, uid_of
from fournos.systems.multikueue import names
from fournos.systems.multikueue.fournoscluster.build import secret_name
from fournos.systems.multikueue.kinds import MULTIKUEUE_CLUSTER
from tests.integration.multikueue.fleet import KUEUE, Fleet, insecure, typed


@pytest.fixture
async def fleet(sites: Fleet) -> AsyncIterator[Fleet]:
    """Its FournosClusters and their Secrets are in its namespace."""
    await sites.set_up(controller=names.CONTROLLER)
    sites.start()
    yield sites
    await sites.tear_down()


async def found(fleet: Fleet, name: str) -> Any:
    for one in (await fleet.manager.client.list(MULTIKUEUE_CLUSTER)).items:
        if one["metadata"]["name"] == name:
            return one
    return None


async def active(fleet: Fleet, name: str) -> tuple[str, str]:
    shown = condition(await found(fleet, name) or {}, "Active") or {}
    return str(shown.get("status") or ""), str(shown.get("reason") or "")


async def copy(fleet: Fleet, name: str) -> Any:
    """The Secret in Kueue's namespace."""
    secrets = (await fleet.manager.client.list(SECRET, namespace=KUEUE)).items
    return next((one for one in secrets if one["metadata"]["name"] == secret_name(name)), None)


async def test_it_becomes_a_worker_and_ceases_to_be(fleet: Fleet) -> None:
    client, name = fleet.manager.client, f"{fleet.namespace}-member"
    good = fleet.workers["w1"].cluster.kubeconfig_path.read_text()
    secret = typed(SECRET, "its-kubeconfig", spec={})
    secret.pop("spec")
    secret["metadata"] |= {
        "namespace": fleet.namespace,
        "labels": {"fournos.dev/cluster-kubeconfig": "true"},
    }
    secret["stringData"] = {"kubeconfig": insecure(good)}
    await client.create(SECRET, secret)
    member = typed(FOURNOS_CLUSTER, name, spec={"kubeconfigSecret": "its-kubeconfig"})
    member["metadata"] |= {"namespace": fleet.namespace, "labels": {names.OPT_IN: "true"}}
    await client.create(FOURNOS_CLUSTER, member)

    async def reported() -> bool:
        events = (await client.list(EVENT, namespace=fleet.namespace)).items
        return any("not a worker" in str(one.get("note")) for one in events)

    await fleet.until(reported, "nobody says why its kubeconfig is refused")
    assert await found(fleet, name) is None and await copy(fleet, name) is None
    await client.patch(SECRET, fleet.manager.key("its-kubeconfig"), {"stringData": {"kubeconfig": good}})

    async def connected() -> bool:
        return await active(fleet, name) == ("True", "Active")

    await fleet.until(connected, "Kueue does not connect to it")
    copied, worker = await copy(fleet, name), await found(fleet, name)
    assert copied["metadata"]["ownerReferences"][0]["uid"] == uid_of(worker)
    original = await client.get(SECRET, fleet.manager.key("its-kubeconfig"))
    assert copied["data"] == original["data"]
    rotated = {"stringData": {"kubeconfig": good + "\n# rotated\n"}}
    rotated_secret = await client.patch(SECRET, fleet.manager.key("its-kubeconfig"), rotated)

    async def followed() -> bool:
        return bool((await copy(fleet, name))["data"] == rotated_secret["data"])

    await fleet.until(followed, "the copy does not follow")
    await client.patch(
        FOURNOS_CLUSTER, fleet.manager.key(name), {"metadata": {"labels": {names.OPT_IN: None}}}
    )

    async def gone() -> bool:
        return await found(fleet, name) is None and await copy(fleet, name) is None

    await fleet.until(gone, "it stays a worker")
    assert (await client.get(SECRET, fleet.manager.key("its-kubeconfig")))["data"] == rotated_secret["data"]
    await client.delete(FOURNOS_CLUSTER, fleet.manager.key(name))
