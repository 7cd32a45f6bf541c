"""For every kind: a write that is refused for good shows on the object, and no longer once it is accepted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fournos.api.kinds import APPWRAPPER, FOURNOS_CLUSTER, FOURNOS_JOB, MINICLUSTER
from fournos.engine.api.conditions import condition
from fournos.engine.kube.errors import ForbiddenError, InvalidError, KubeError
from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.queueing.kinds import WORKLOAD
from tests.unit.systems.appwrappers import test_lifecycle as appwrappers
from tests.unit.systems.clusters import test_lifecycle as clusters
from tests.unit.systems.jobs import test_lifecycle as jobs
from tests.unit.systems.miniclusters import actors as miniclusters
from tests.world.harness import Scenario, run
from tests.world.server import Server

POLICY = "ValidatingAdmissionPolicy 'no-finalizers' denied request"


Refuse = Callable[[str, Resource, Obj], KubeError | None]


async def refused_for_a_while(story: Scenario, kind: Resource, refuse: Refuse) -> tuple[Server, list[Obj]]:
    """Half an hour of retries, then it is accepted.  Returns the end, and the object before that."""
    blocked: list[Obj] = []

    def setup(server: Server) -> None:
        server.refusals.append(refuse)
        story.setup(server)

    def accept(server: Server) -> None:
        blocked.extend(server.list(kind))
        server.refusals.remove(refuse)

    life = await run(replace(story, setup=setup, script=(accept,), horizon=1800.0))
    return life.server, blocked


def finalizers_of(kind: Resource) -> Refuse:
    def refuse(verb: str, resource: Resource, body: Obj) -> KubeError | None:
        added = (body.get("metadata") or {}).get("finalizers")
        return ForbiddenError(POLICY, status=403) if (verb, resource) == ("patch", kind) and added else None

    return refuse


def workloads(verb: str, resource: Resource, body: Obj) -> KubeError | None:
    refused = (verb, resource) == ("create", WORKLOAD)
    return InvalidError("admission webhook vworkload.kb.io: no", status=422) if refused else None


CASES: dict[Resource, Scenario] = {
    FOURNOS_JOB: jobs.scenario(),
    FOURNOS_CLUSTER: clusters.scenario(clusters.one),
    APPWRAPPER: appwrappers.scenario(appwrappers.sample),
    MINICLUSTER: miniclusters.story(setup=miniclusters.with_queue, world=miniclusters.ends_with(0)),
}


def retrying(found: Obj) -> tuple[str, str, str]:
    shown = condition(found, "Retrying") or {}
    return str(shown.get("status")), str(shown.get("reason")), str(shown.get("message"))


async def shown_and_taken_back(kind: Resource, refuse: Refuse, text: str) -> None:
    server, (blocked,) = await refused_for_a_while(CASES[kind], kind, refuse)
    status, _, message = retrying(blocked)
    assert status == "True" and text in message
    (later,) = server.list(kind)
    assert retrying(later)[:2] == ("False", "Recovered")
    changes = [retrying(change.object) for change in server.history if change.resource == kind]
    assert len(set(changes)) == 3  # absent, True, False: a repetition writes nothing


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.kind)
async def test_a_finalizer_that_is_refused(kind: Resource) -> None:
    await shown_and_taken_back(kind, finalizers_of(kind), POLICY)


@pytest.mark.parametrize("kind", [APPWRAPPER, MINICLUSTER], ids=lambda kind: kind.kind)
async def test_a_workload_that_kueue_refuses(kind: Resource) -> None:
    await shown_and_taken_back(kind, workloads, "vworkload.kb.io")
