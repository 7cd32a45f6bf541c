"""After a write: the next page waits for the watched objects, and not for ever."""

from __future__ import annotations

import asyncio

import pytest

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.engine.kube.resource import Key
from fournos.insight.caches import ObjectCaches
from fournos.web.site import PATIENCE, Written, arrived
from tests.unit.client.world import NS, SPEC, Api

pytestmark = pytest.mark.looptime
SOON = PATIENCE / 4


async def seconds(caches: ObjectCaches, written: Written) -> float:
    """How long it waits."""
    began = asyncio.get_running_loop().time()
    await arrived(caches, written)
    return asyncio.get_running_loop().time() - began


async def test_a_page_follows_its_write() -> None:
    api = Api()
    async with ObjectCaches(api, {FOURNOS_JOB: ""}) as caches:
        made = await api.create(FOURNOS_JOB, {"metadata": {"name": "one", "namespace": NS}, "spec": SPEC})
        assert await seconds(caches, Written(FOURNOS_JOB, made)) < SOON
        assert (await caches.get(FOURNOS_JOB, Key(NS, "one")))["spec"] == SPEC
        changed = await api.patch(FOURNOS_JOB, Key(NS, "one"), {"spec": {"owner": "ben"}})
        assert await seconds(caches, Written(FOURNOS_JOB, changed)) < SOON
        assert (await caches.get(FOURNOS_JOB, Key(NS, "one")))["spec"]["owner"] == "ben"
        await api.delete(FOURNOS_JOB, Key(NS, "one"))
        assert await seconds(caches, Written(FOURNOS_JOB, made, deleted=True)) < SOON
        assert not (await caches.list(FOURNOS_JOB)).items


async def test_a_job_that_is_being_deleted_counts_as_deleted() -> None:
    api = Api()
    meta = {"name": "one", "namespace": NS, "finalizers": ["fournos.dev/cleanup"]}
    async with ObjectCaches(api, {FOURNOS_JOB: ""}) as caches:
        made = await api.create(FOURNOS_JOB, {"metadata": meta, "spec": SPEC})
        await api.delete(FOURNOS_JOB, Key(NS, "one"))
        assert await seconds(caches, Written(FOURNOS_JOB, made, deleted=True)) < SOON


async def test_what_is_not_watched_is_not_waited_for() -> None:
    api = Api()
    async with ObjectCaches(api, {FOURNOS_JOB: ""}) as caches:
        body = {"metadata": {"name": "c", "namespace": "hearth", "resourceVersion": "9"}}
        assert await seconds(caches, Written(FOURNOS_CLUSTER, body)) == 0


async def test_a_broken_watch_does_not_hold_up_the_page() -> None:
    api = Api()
    async with ObjectCaches(api, {FOURNOS_JOB: ""}) as caches:
        body = {"metadata": {"name": "one", "namespace": NS, "resourceVersion": "99999"}}
        assert await seconds(caches, Written(FOURNOS_JOB, body)) == pytest.approx(PATIENCE, abs=0.1)
