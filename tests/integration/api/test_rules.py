"""Every rule, sent to a real API server and to the check in Python: same result, same message."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.rules import Violation
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import InvalidError
from fournos.systems.jobs.rules import RULES, check, check_manifest
from tests.integration.conftest import Server
from tests.integration.refusals import refused
from tests.rule_cases import (
    CHANGES,
    CREATIONS,
    ENGINE,
    FREE,
    FULL,
    LOCK,
    PHASES,
    SHARED,
    job,
    merged,
    shared,
)

pytestmark = pytest.mark.usefixtures("crds")


def jobs(namespace: str) -> str:
    return f"/apis/fournos.dev/v1/namespaces/{namespace}/fournosjobs"


def ids(violations: Iterable[Violation]) -> set[str]:
    return {violation.rule for violation in violations}


async def verdict(server: Server, namespace: str, obj: Mapping[str, Any]) -> set[str]:
    """Of a creation that is not carried out."""
    status, answer = await server("POST", jobs(namespace), obj, dryRun="All")
    assert status in (201, 422), answer
    assert (status == 201) == (not refused(RULES, answer)), answer
    return refused(RULES, answer)


async def test_creations(server: Server, namespace: str) -> None:
    for case in CREATIONS:
        assert await verdict(server, namespace, case.bad) == {case.rule, *case.also}, case
        assert await verdict(server, namespace, case.good) == set(), case


async def test_all_combinations(server: Server, namespace: str) -> None:
    """Which fields go together: every combination, the same verdict from both."""
    absent = object()
    choices: dict[str, tuple[Any, ...]] = {
        "exclusive": (absent, True, False),
        "cluster": (absent, "", "c1"),
        "lockOnly": (absent, False, True),
        "clusterless": (absent, False, True),
        "executionEngine": (absent, {}, ENGINE, {"a": 1, "b": {}}),
        "hardware": (absent, {}, {"gpuType": "a100"}, {"gpuType": "a100", "gpuCount": 1}),
    }
    limit = asyncio.Semaphore(8)

    async def compare(values: tuple[Any, ...]) -> tuple[dict[str, Any], set[str], set[str]]:
        spec = {name: value for name, value in zip(choices, values, strict=True) if value is not absent}
        async with limit:
            return spec, await verdict(server, namespace, job(spec)), ids(check_manifest(job(spec)))

    results = await asyncio.gather(*(compare(values) for values in itertools.product(*choices.values())))
    assert len(results) == 1296
    assert [result for result in results if result[1] != result[2]] == []
    assert sum(not message for _, message, _ in results) > 50, "some pass"


async def with_phase(server: Server, namespace: str, name: str, spec: Mapping[str, Any], phase: str) -> str:
    status, answer = await server("POST", jobs(namespace), job(spec, name=name))
    assert status == 201, answer
    path = f"{jobs(namespace)}/{name}"
    status, answer = await server.patch(f"{path}/status", {"status": {"phase": phase}})
    assert status == 200, answer
    return path


@pytest.mark.parametrize("phase", PHASES)
async def test_changes(server: Server, namespace: str, phase: str) -> None:
    specs: list[Mapping[str, Any]] = []
    for change in CHANGES:
        if change.spec not in specs:
            specs.append(change.spec)
            await with_phase(server, namespace, f"job-{specs.index(change.spec)}", change.spec, phase)
        path = f"{jobs(namespace)}/job-{specs.index(change.spec)}"
        _, stored = await server("GET", path)
        status, answer = await server.patch(path, {"spec": change.patch}, dryRun="All")
        assert (change.rule in refused(RULES, answer)) == (phase in change.phases), (change, answer)
        wanted = {**stored, "spec": merged(stored["spec"], change.patch)}
        assert refused(RULES, answer) == ids(check(wanted, stored)), change
        assert (status == 200) == (not refused(RULES, answer))
    shared_path = f"{jobs(namespace)}/job-{specs.index(SHARED)}"
    for patch in FREE:
        status, answer = await server.patch(shared_path, {"spec": patch}, dryRun="All")
        assert status == 200, (patch, answer)
    status, answer = await server.patch(shared_path, {"metadata": {"labels": {"a": "b"}}})
    assert status == 200, answer


async def test_resolver_then_frozen(server: Server, namespace: str) -> None:
    """The life of a job: the resolver fills in the spec, then the phases close it step by step."""
    path = await with_phase(server, namespace, "life", SHARED, "Resolving")
    resolution = {"hardware": {"gpuType": "a100", "gpuCount": 2}, "secretRefs": ["placeholder"]}
    status, answer = await server.patch(path, {"spec": resolution})
    assert status == 200, answer
    for phase in ("Pending", "Admitted", "Running", "Stopping", "Stopped"):
        status, answer = await server.patch(f"{path}/status", {"status": {"phase": phase}})
        assert status == 200, answer
        status, answer = await server.patch(path, {"spec": {"secretRefs": []}})
        assert status == 422, phase
        assert refused(RULES, answer) == {"secretrefs-frozen"}
    status, answer = await server.patch(path, {"spec": resolution})
    assert status == 200, "writing the same again is no change"


async def test_a_job_that_waits_for_its_next_attempt_stays_as_it_was_admitted(
    server: Server, namespace: str
) -> None:
    path = await with_phase(server, namespace, "again", SHARED, "Pending")
    status, answer = await server.patch(path, {"spec": {"priority": "nightly"}})
    assert status == 200, answer
    status, answer = await server.patch(f"{path}/status", {"status": {"attempt": 1}})
    assert status == 200, answer
    status, answer = await server.patch(path, {"spec": {"priority": "manual"}})
    assert (status, refused(RULES, answer)) == (422, {"priority-frozen"})
    _, stored = await server("GET", path)
    wanted = {**stored, "spec": {**stored["spec"], "priority": "manual"}}
    assert ids(check(wanted, stored)) == {"priority-frozen"}


async def test_generated_names(server: Server, namespace: str) -> None:
    body = job(SHARED)
    for length, wanted in ((50, set()), (51, {"name-length"}), (200, {"name-length"})):
        body["metadata"] = {"generateName": "g" * (length - 1) + "-"}
        assert await verdict(server, namespace, body) == wanted == ids(check_manifest(body))


async def test_the_largest_job_fits_the_budget_of_the_rules(server: Server, namespace: str) -> None:
    spec = shared(
        secretRefs=[f"{'s.' * 125}{index:03d}" for index in range(64)],
        env={f"{'N' * 200}{index}": "v" * 1000 for index in range(256)},
        executionEngine={"forge": {"items": list(range(10_000))}},
    )
    path = await with_phase(server, namespace, "large", spec, "Running")
    status, answer = await server.patch(path, {"spec": {"executionEngine": {"forge": {"items": [1]}}}})
    assert (status, refused(RULES, answer)) == (422, {"executionengine-frozen"})
    status, answer = await server.patch(path, {"spec": {"shutdown": "Stop"}})
    assert status == 200, answer


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (shared(hardware={"gpuType": "a100", "gpuCount": 0}), "spec.hardware.gpuCount"),
        (shared(hardware={"gpuType": "a100", "gpuCount": "2"}), "spec.hardware.gpuCount"),
        (shared(hardware={"gpuType": "a100", "gpuCount": True}), "spec.hardware.gpuCount"),
        (shared(hardware={"gpuType": "a100", "gpuCount": 1.5}), "spec.hardware.gpuCount"),
        (shared(shutdown="stop"), "spec.shutdown"),
        (shared(retry={"limit": 11}), "spec.retry.limit"),
        (shared(retry={"limit": -1}), "spec.retry.limit"),
        (shared(exclusive="false"), "spec.exclusive"),
        (shared(env={"A": 1}), "spec.env.A"),
        (shared(secretRefs="a"), "spec.secretRefs"),
        (shared(secretRefs=[f"s{index}" for index in range(65)]), "spec.secretRefs"),
        (shared(executionEngine="forge"), "spec.executionEngine"),
        (shared(owner="o" * 1025), "spec.owner"),
        (shared(ttl=7), "spec.ttl"),
        ({**LOCK, "timeouts": []}, "spec.timeouts"),
    ],
)
async def test_schema(server: Server, namespace: str, spec: Any, field: str) -> None:
    """Types and bounds: both refuse, both name the field."""
    _, answer = await server("POST", jobs(namespace), job(spec), dryRun="All")
    assert field in {cause["field"] for cause in answer["details"]["causes"]}, answer
    assert [violation.field for violation in check_manifest(job(spec))] == [field]


async def test_our_client_passes_the_message_on(client: Client, namespace: str) -> None:
    body = job({"executionEngine": ENGINE})
    body["metadata"]["namespace"] = namespace
    with pytest.raises(InvalidError, match=r"spec.cluster: Required value: .* write exclusive: false"):
        await client.create(FOURNOS_JOB, body)


async def test_nulls_and_unknown_fields(server: Server, namespace: str) -> None:
    nulls = job({**FULL, "ttl": None, "timeouts": {"pipeline": None}, "env": None, "pipeline": None})
    assert await verdict(server, namespace, nulls) == set()
    status, answer = await server(
        "POST", jobs(namespace), job(shared(gpu=1)), dryRun="All", fieldValidation="Strict"
    )
    assert status == 400 and "spec.gpu" in answer["message"]
    assert [violation.field for violation in check_manifest(job(shared(gpu=1)))] == ["spec.gpu"]


async def test_defaults_are_filled_in_only_where_marked(server: Server, namespace: str) -> None:
    status, answer = await server("POST", jobs(namespace), job({"executionEngine": ENGINE, "cluster": "c1"}))
    assert status == 201
    assert answer["spec"] == {
        "executionEngine": ENGINE,
        "cluster": "c1",
        "exclusive": True,
        "pipeline": "fournos-full",
    }
