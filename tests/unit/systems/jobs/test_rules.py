"""The rules in Python.  The same table meets a real API server in tests/integration/api."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fournos.api.kinds import PIPELINE, PIPELINE_RUN
from fournos.engine.kube.errors import ConnectionLostError, KubeError, error_from
from fournos.engine.kube.resource import POD, Key, Obj, Resource
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.jobs.rules import RULES, check, check_manifest
from fournos.systems.jobs.settings import Template
from tests.rule_cases import (
    ALWAYS,
    CHANGES,
    CREATIONS,
    FREE,
    SHARED,
    Case,
    Change,
    job,
    merged,
    shared,
)
from tests.unit.systems.jobs.actors import (
    NS,
    Kueue,
    Resolver,
    Tekton,
    phase,
    submit,
)
from tests.unit.systems.jobs.test_names_and_adoption import finished, status
from tests.world.server import Server

BY_ID = {rule.id: rule for rule in RULES}


def ids(violations: list) -> list[str]:  # type: ignore[type-arg]
    return [violation.rule for violation in violations]


def test_every_rule_has_an_id_of_its_own_and_a_case() -> None:
    assert len(BY_ID) == len(RULES)
    assert {case.rule for case in CREATIONS} | {change.rule for change in CHANGES} == set(BY_ID)


@pytest.mark.parametrize("case", CREATIONS, ids=lambda case: case.rule)
def test_creation(case: Case) -> None:
    assert ids(check_manifest(case.bad)) == [case.rule, *case.also]
    assert check_manifest(case.good) == []
    assert case.says in BY_ID[case.rule].message


@pytest.mark.parametrize("phase", ALWAYS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.rule}-{list(change.patch)}")
def test_change(change: Change, phase: str | None) -> None:
    old = job(change.spec, phase=phase)
    new = job(merged(change.spec, change.patch), phase=phase)
    assert (change.rule in ids(check(new, old))) == (phase in change.phases)
    assert change.says in BY_ID[change.rule].message


@pytest.mark.parametrize("phase", ALWAYS)
@pytest.mark.parametrize("patch", FREE, ids=str)
def test_free_in_every_phase(patch: dict, phase: str | None) -> None:  # type: ignore[type-arg]
    assert check(job(merged(SHARED, patch), phase=phase), job(SHARED, phase=phase)) == []


def test_the_resolver_may_fill_in_hardware_and_secrets() -> None:
    old = job(SHARED, phase="Resolving")
    new = job(
        shared(hardware={"gpuType": "a100", "gpuCount": 2}, secretRefs=["placeholder"]), phase="Resolving"
    )
    assert check(new, old) == []


@pytest.mark.parametrize("case", CREATIONS, ids=lambda case: case.rule)
def test_what_was_stored_wrong_may_stay_wrong(case: Case) -> None:
    if "spec" in case.bad:
        stopped = {**case.bad, "spec": {**case.bad["spec"], "shutdown": "Stop"}}
        assert check(stopped, case.bad) == []
    labelled = {**case.bad, "metadata": {**case.bad["metadata"], "labels": {"a": "b"}}}
    assert check(labelled, case.bad) == []
    assert ids(check(case.bad)) == [case.rule, *case.also], "but it is still found"


@pytest.mark.parametrize("case", CREATIONS, ids=lambda case: case.rule)
def test_what_was_right_may_not_become_wrong(case: Case) -> None:
    if BY_ID[case.rule].when == "create":
        return
    before = job(SHARED) if case.bad.get("spec") is None else case.good
    assert case.rule in ids(check(case.bad, before))


def test_a_job_that_waits_for_its_next_attempt_stays_as_it_was_admitted() -> None:
    old = job(shared(priority="nightly"), phase="Pending")
    new = job(shared(priority="manual"), phase="Pending")
    assert check(new, old) == []
    old["status"]["attempt"] = 1
    assert ids(check(new, old)) == ["priority-frozen"]


def test_the_sample_of_the_readme_passes() -> None:
    sample = {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosJob",
        "metadata": {"generateName": "sample-run-benchmark-"},
        "spec": {
            "owner": "perf-team",
            "displayName": "sample-run-benchmark",
            "cluster": "cluster-1",
            "hardware": {"gpuType": "a100", "gpuCount": 2},
            "pipeline": "forge-full",
            "executionEngine": {
                "forge": {"project": "llmd", "args": ["cks"], "configOverrides": {"batch_size": 64}}
            },
            "env": {"OCPCI_SUITE": "regression", "OCPCI_VARIANT": "nightly"},
        },
    }
    assert check_manifest(sample) == []
    sample["metadata"] = {"generateName": "g" * 51}
    assert ids(check_manifest(sample)) == ["name-length"]


def test_null_is_absent() -> None:
    spec = {**SHARED, "cluster": None, "hardware": None, "ttl": None, "secretRefs": None, "env": None}
    assert check_manifest(job({**spec, "timeouts": {"pipeline": None}, "pipeline": None})) == []
    assert ids(check_manifest(job({**SHARED, "exclusive": None}))) == ["exclusive-cluster"]


# --- refusals ------------------------------------------------------------------------------------------
# What fails a job at once, what makes it wait, and the message of each.


@pytest.mark.parametrize("kind", [WORKLOAD, PIPELINE_RUN])
@pytest.mark.parametrize(
    ("code", "body"),
    [(302, b"<html>log in</html>"), (400, b"<html>400 Bad request</html>"), (404, b"no such page")],
)
async def test_one_answer_of_a_proxy_ends_no_job(kind: Resource, code: int, body: bytes) -> None:
    def setup(server: Server) -> None:
        submit(server)
        left = [1]

        def refuse(verb: str, resource: Resource, obj: Obj) -> KubeError | None:
            if verb == "create" and resource == kind and left:
                left.pop()
                return error_from(code, body)
            return None

        server.refusals.append(refuse)

    assert phase(await finished(setup)) == "Succeeded"


@pytest.mark.parametrize(
    ("missing", "reason"), [(PIPELINE_RUN, "TektonNotInstalled"), (WORKLOAD, "KueueNotInstalled")]
)
async def test_a_missing_engine_waits_until_it_is_installed(missing: Resource, reason: str) -> None:
    def install(server: Server) -> None:
        reasons = [c["reason"] for c in status(server)["conditions"]]
        assert reason in reasons
        server.unserved.discard(missing)

    def once_installed(actor: Any) -> Callable[[Server], None]:
        return lambda server: None if missing in server.unserved else actor(server)

    def setup(server: Server) -> None:
        server.unserved.add(missing)
        submit(server)

    kueue = once_installed(Kueue()) if missing is WORKLOAD else Kueue()
    cast = [Resolver(), kueue, once_installed(Tekton())]
    assert phase(await finished(setup, cast=cast, script=[install])) == "Succeeded"


async def test_an_unreadable_template_waits_and_names_it() -> None:
    broken = Template("nowhere.yaml", None, "no such file")
    server = await finished(template=broken)
    assert phase(server) == "Resolving"
    assert "'nowhere.yaml' no such file" in status(server)["message"]


async def test_a_foreign_object_of_our_name_is_left_alone() -> None:
    foreign = {"metadata": {"name": "job", "namespace": NS, "labels": {"theirs": "yes"}}, "spec": {"x": 1}}

    def setup(server: Server) -> None:
        server.create(PIPELINE_RUN, foreign)
        submit(server)

    server = await finished(setup, tekton=Tekton(endless={"job"}))
    assert phase(server) == "Failed"
    assert "exists already and belongs to no controller" in status(server)["message"]
    assert server.get(PIPELINE_RUN, Key(NS, "job"))["spec"] == {"x": 1}
    assert server.list(WORKLOAD) == []


async def test_no_second_run_beside_the_pods_of_a_deleted_one() -> None:
    """The answer to the creation is lost, the run starts a pod, a user deletes it, all in one pass."""

    def setup(server: Server) -> None:
        def lose(verb: str, resource: Resource, obj: Obj) -> KubeError | None:
            if (verb, resource) != ("create", PIPELINE_RUN):
                return None
            server.refusals.clear()
            labels = {"tekton.dev/pipelineRun": "job"}
            server.create(POD, {"metadata": {"name": "left", "namespace": NS, "labels": labels}})
            server.patch(POD, Key(NS, "left"), {"status": {"phase": "Running"}}, subresource="status")
            return ConnectionLostError("connection reset by peer")

        server.refusals.append(lose)
        submit(server)

    def look(server: Server) -> None:
        assert (phase(server), server.list(PIPELINE_RUN)) == ("Admitted", [])
        assert "waiting for 1 pod(s) to end: left" in status(server)["message"]
        server.delete(POD, Key(NS, "left"))

    server = await finished(setup, script=[look], tekton=Tekton(keeps_pods={"left"}))
    assert phase(server) == "Succeeded"


LIMITS = {
    "none": ({}, ("25h0m0s", "24h0m0s", "1h0m0s")),
    "pipeline": ({"pipeline": "10h"}, ("10h", "9h0m0s", "1h0m0s")),
    "short pipeline": ({"pipeline": "2h"}, ("2h", "1h48m0s", "12m0s")),
    "pipeline and tasks": ({"pipeline": "1h", "tasks": "50m"}, ("1h", "50m", "10m0s")),
    "pipeline and finally": ({"pipeline": "1h", "finally": "5m"}, ("1h", "55m0s", "5m")),
    "tasks": ({"tasks": "48h"}, ("49h0m0s", "48h", "1h0m0s")),
    "all": ({"pipeline": "3h", "tasks": "1h", "finally": "1h"}, ("3h", "1h", "1h")),
}


@pytest.mark.parametrize("case", LIMITS)
async def test_limits_that_are_not_given_follow_from_those_that_are(case: str) -> None:
    given, wanted = LIMITS[case]
    server = await finished(lambda s: submit(s, timeouts=given))
    limits = server.get(PIPELINE_RUN, Key(NS, "job"))["spec"]["timeouts"]
    assert (limits["pipeline"], limits["tasks"], limits["finally"]) == wanted


async def test_without_finally_tasks_the_tasks_may_use_the_whole_limit() -> None:
    def setup(server: Server) -> None:
        server.patch(PIPELINE, Key(NS, "fournos-full"), {"spec": {"finally": None}})
        submit(server, timeouts={"pipeline": "60s"})

    run = (await finished(setup)).get(PIPELINE_RUN, Key(NS, "job"))["spec"]
    assert run["timeouts"] == {"pipeline": "60s", "tasks": "60s"}
    assert run["taskRunSpecs"] == [{"pipelineTaskName": "run", "timeout": "60s"}]
