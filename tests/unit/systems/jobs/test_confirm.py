"""Reruns of a suspected regression: made by the operator, once each, as the same job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.conditions import condition
from fournos.engine.api.values import format_time
from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.kube.resource import Key, Obj, key_of
from fournos.engine.runtime.decision import Facts
from fournos.systems.jobs.finish import derive_suspected
from fournos.systems.jobs.names import (
    CONFIRMS_LABEL,
    MAX_NAME,
    RERUN_OF_ANNOTATION,
    RERUNS_CREATED,
    rerun_name,
)
from fournos.systems.jobs.part import jobs_controller
from fournos.systems.jobs.rules import check_manifest
from fournos.systems.jobs.settings import JobSettings
from fournos.systems.jobs.status import Context
from tests.unit.systems.jobs.actors import NS, TEMPLATE, Kueue, Resolver, Tekton, environment, job, submit
from tests.world.harness import DISTURBED, Run, Scenario, run
from tests.world.server import Server


def historian(*, suspects: bool = True, forges: bool = False) -> Callable[[Server], None]:
    """Archives ended jobs, and suspects the results of those that are to be compared.

    `forges`: those of all jobs, as nobody but the recorder may.
    """

    def act(server: Server) -> None:
        for found in server.list(FOURNOS_JOB):
            status = found.get("status") or {}
            if not (status.get("phaseTimes") or {}).get("finished") or "archivedAt" in status:
                continue
            wrote = {"archivedAt": format_time(server.clock.now())}
            awaited = (condition(found, RERUNS_CREATED) or {}).get("status") == "Unknown"
            if suspects and (awaited or forges):
                wrote["suspectedAt"] = wrote["archivedAt"]
            server.patch(FOURNOS_JOB, key_of(found), {"status": wrote}, subresource="status")

    return act


def scenario(
    *,
    spec: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
    actor: Callable[[Server], None] | None = None,
    tekton: Callable[[], Any] = Tekton,
    refuse: Callable[..., None] | None = None,
    script: Any = (),
    **settings: Any,
) -> Scenario:
    def begin(server: Server) -> None:
        environment(server)
        submit(server, **{"owner": "me", "confirm": {"repeats": 2}, **(spec or {})})
        if labels:
            server.patch(FOURNOS_JOB, Key(NS, "job"), {"metadata": {"labels": labels}})
        if refuse is not None:
            server.refusals.append(refuse)

    found = JobSettings(namespace=NS, **{"history_enabled": True, **settings})
    return Scenario(
        jobs_controller(found, TEMPLATE),
        begin,
        (actor or historian(),),
        script,
        cast=(Resolver, Kueue, tekton),
        invariants=(no_more_than_asked_for,),
        end=end,
    )


def reruns(server: Server) -> list[Any]:
    return [one for one in server.list(FOURNOS_JOB) if one["metadata"]["name"] != "job"]


def created(server: Server) -> list[str]:
    """The names of all jobs that ever were created."""
    seen = [
        one.object["metadata"]
        for one in server.history
        if one.resource == FOURNOS_JOB and one.type == "ADDED"
    ]
    return sorted(str(one["name"]) for one in seen)


def no_more_than_asked_for(server: Server) -> None:
    names = created(server)
    assert len(names) == len(set(names)), "created twice"
    assert len(names) <= 1 + 5


def end(server: Server) -> Any:
    return [
        (
            one["metadata"]["name"],
            one["metadata"].get("labels"),
            one["spec"],
            one["status"]["phase"],
            one["status"].get("reruns"),
            (condition(one, RERUNS_CREATED) or {}).get("reason"),
        )
        for one in server.list(FOURNOS_JOB)
    ]


def reason(found: Run) -> str:
    return str((condition(job(found.server), RERUNS_CREATED) or {}).get("reason") or "")


async def test_a_suspected_regression_is_measured_again() -> None:
    found = await run(scenario())
    first, second = reruns(found.server)
    original = job(found.server)
    assert original["status"]["reruns"] == [first["metadata"]["name"], second["metadata"]["name"]]
    assert reason(found) == "Created"
    for one in (first, second):
        assert one["metadata"]["labels"][CONFIRMS_LABEL] == original["metadata"]["uid"]
        assert one["metadata"]["annotations"] == {RERUN_OF_ANNOTATION: "job"}
        assert one["metadata"]["namespace"] == NS
        assert "ownerReferences" not in one["metadata"], "deleting the job must not delete them"
        assert one["status"]["phase"] == "Succeeded"
        assert one["spec"] == {**original["spec"], "confirm": {"repeats": 0}}
        assert condition(one, RERUNS_CREATED) is None, "a rerun asks for none"
        assert check_manifest({**one, "status": {}}) == []


async def test_on_the_same_cluster_and_hardware_without_priority() -> None:
    wanted = {
        "exclusive": False,
        "cluster": None,
        "priority": "nightly",
        "env": {"A": "b"},
        "retry": {"limit": 1},
        "ttl": "7d",
    }
    hardware = {"gpuType": "a100", "gpuCount": 2}
    one = scenario(spec=wanted, labels={"team": "x", "kueue.x-k8s.io/queue-name": "other"})
    found = await run(replace(one, cast=(lambda: Resolver(writes={"hardware": hardware}), Kueue, Tekton)))
    first, _ = reruns(found.server)
    spec = first["spec"]
    assert (spec["cluster"], spec["hardware"]) == (job(found.server)["status"]["cluster"], hardware)
    assert "priority" not in spec
    assert (spec["owner"], spec["env"], spec["ttl"], spec["exclusive"]) == ("me", {"A": "b"}, "7d", False)
    assert set(first["metadata"]["labels"]) == {"team", CONFIRMS_LABEL}


async def test_the_priority_of_reruns() -> None:
    found = await run(scenario(confirm_priority="nightly"))
    assert [one["spec"]["priority"] for one in reruns(found.server)] == ["nightly"] * 2


async def test_the_default_number_of_reruns() -> None:
    assert JobSettings(namespace=NS).confirm_repeats == 0
    found = await run(scenario(spec={"confirm": None}, confirm_repeats=3))
    assert len(reruns(found.server)) == 3
    none = await run(scenario(spec={"confirm": {"repeats": 0}}, confirm_repeats=3))
    assert reruns(none.server) == []


NOTHING: dict[str, Any] = {
    "confirm is not used": {"spec": {"confirm": None}},
    "there is no history": {"history_enabled": False},
    "the job failed": {"tekton": lambda: Tekton(fails={"job"})},
    "it only locked": {"spec": {"lockOnly": True, "executionEngine": None, "shutdown": "Stop"}},
    "it is a rerun itself": {"labels": {CONFIRMS_LABEL: "another"}},
    "a manager cluster has the history": {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "w"}},
}


@pytest.mark.parametrize("case", NOTHING)
async def test_without_reruns_nothing_is_expected_and_a_forged_suspicion_does_nothing(case: str) -> None:
    found = await run(scenario(actor=historian(forges=True), **NOTHING[case]))
    assert reruns(found.server) == []
    assert condition(job(found.server), RERUNS_CREATED) is None


async def test_without_confirm_no_request_is_made() -> None:
    plain = await run(scenario(spec={"confirm": None}))
    expected = await run(scenario(actor=historian(suspects=False)))
    assert len(plain.process.api.writes) == len(expected.process.api.writes)
    assert reruns(expected.server) == []


async def test_nothing_suspected_is_in_the_next_write() -> None:
    found = await run(scenario(actor=historian(suspects=False)))
    assert reason(found) == "Pending", "a write of its own is not worth the request"
    observed = found.scenario.controller.observe(found.process.caches, Key(NS, "job"))
    assert observed is not None
    settings = JobSettings(namespace=NS, history_enabled=True)
    ctx = Context(observed, Facts(), found.server.clock.now(), settings, TEMPLATE)
    derive_suspected(ctx)
    assert ctx.draft.reason_of(RERUNS_CREATED) == "NotSuspected"
    later = await run(scenario(actor=historian(suspects=False), spec={"ttl": "30m"}))
    assert later.server.find(FOURNOS_JOB, Key(NS, "job")) is None, "the deletion waits for nothing more"


async def test_a_spec_that_was_changed_after_the_end_is_not_run_again() -> None:
    def begun_late(server: Server) -> None:
        found = job(server).get("status") or {}
        if found.get("phase") == "Succeeded":
            if "archivedAt" not in found:
                server.patch(FOURNOS_JOB, Key(NS, "job"), {"spec": {"owner": "victim"}})
            historian()(server)

    found = await run(scenario(actor=begun_late))
    assert reruns(found.server) == []
    assert reason(found) == "SpecChanged"


async def test_reruns_that_are_refused_are_reported_and_not_tried_for_ever() -> None:
    def refuse(verb: str, resource: Any, obj: Obj) -> None:
        if verb == "create" and resource == FOURNOS_JOB and "confirm1" in obj["metadata"]["name"]:
            raise ForbiddenError("fournosjobs is forbidden", status=403)

    found = await run(scenario(refuse=refuse))
    assert reruns(found.server) == []
    assert reason(found) == "ForbiddenError"
    assert "fournosjobs is forbidden" in (condition(job(found.server), RERUNS_CREATED) or {})["message"]


async def test_a_foreign_job_with_that_name_is_no_rerun() -> None:
    def occupied(server: Server) -> None:
        submit(server, rerun_name("job", job(server)["metadata"]["uid"], 1), owner="other", confirm=None)

    one = scenario()

    def begin(server: Server) -> None:
        one.setup(server)
        occupied(server)

    found = await run(replace(one, setup=begin))
    (theirs,) = reruns(found.server)
    assert theirs["spec"]["owner"] == "other"
    assert reason(found) == "ForeignObject"


async def test_deleted_reruns_are_not_made_again() -> None:
    def delete(server: Server) -> None:
        for one in reruns(server):
            server.delete(FOURNOS_JOB, key_of(one))

    found = await run(scenario(script=[delete]))
    assert reruns(found.server) == []
    assert len(created(found.server)) == 3


class ResolverOfOne(Resolver):
    """Resolves the job alone: the reruns stay as they were made."""

    def __call__(self, server: Server) -> None:
        if not reruns(server):
            super().__call__(server)


@pytest.mark.parametrize("how", DISTURBED)
async def test_every_disturbance_makes_each_rerun_once(how: str) -> None:
    # A short time to look at: the reruns wait for their resolver, who is polled.
    story = replace(scenario(), cast=(ResolverOfOne, Kueue, Tekton), horizon=60.0)
    assert await DISTURBED[how](story) > 0


def test_names_fit_and_differ() -> None:
    names = {rerun_name("a" * 55, uid, number) for uid in ("u1", "u2") for number in range(1, 6)}
    assert len(names) == 10
    assert all(len(one) <= MAX_NAME for one in names)
    assert rerun_name("a" * 30 + "." * 10, "u", 1).startswith("a" * 30 + "-confirm1-")
