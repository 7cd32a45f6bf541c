"""Which jobs may use a Secret: annotations on it, and a setting for those without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fournos.api.kinds import PIPELINE_RUN
from fournos.engine.kube.resource import SECRET, Key
from fournos.engine.queueing.workload import WORKLOAD
from fournos.systems.jobs.settings import LABELS, NAMESPACES, OWNERS, JobSettings, secret_consumer
from tests.unit.systems.jobs.actors import NS, SETTINGS, Resolver, job, phase, submit
from tests.unit.systems.jobs.test_lifecycle import scenario
from tests.world.harness import run
from tests.world.server import Server

JOB = {"metadata": {"namespace": "bench", "labels": {"team": "llm"}}, "spec": {"owner": "ann"}}
LISTED = SETTINGS.model_copy(update={"secret_policy": "listed"})


@pytest.mark.parametrize(
    ("annotations", "lets_in"),
    [
        ({NAMESPACES: "bench"}, True),
        ({NAMESPACES: "other, bench"}, True),
        ({NAMESPACES: "other"}, False),
        ({NAMESPACES: "benchmark"}, False),
        ({NAMESPACES: ""}, False),
        ({OWNERS: "bob,ann"}, True),
        ({OWNERS: "bob"}, False),
        ({LABELS: "team=llm"}, True),
        ({LABELS: "team in (a,b)"}, False),
        ({LABELS: "(("}, False),
        ({LABELS: ""}, False),
        ({NAMESPACES: "bench", OWNERS: "bob"}, False),
        ({NAMESPACES: "bench", OWNERS: "ann", LABELS: "team"}, True),
    ],
)
def test_every_list_of_a_secret_must_let_the_job_in(annotations: dict[str, str], lets_in: bool) -> None:
    for policy in ("open", "listed"):
        refusal = secret_consumer(JOB, policy)("s", annotations)  # type: ignore[arg-type]
        assert (refusal == "") == lets_in
        assert lets_in or all(word in refusal for word in ("Secret 's'", *list(annotations)[-1:]))


def test_a_job_without_an_owner_is_on_no_list_of_owners() -> None:
    assert secret_consumer({**JOB, "spec": {}}, "open")("s", {OWNERS: ","})


def test_without_a_list_the_setting_counts() -> None:
    assert secret_consumer(JOB, "open")("s", {}) == ""
    assert "FOURNOS_SECRET_POLICY=listed" in secret_consumer(JOB, "listed")("s", {})
    assert JobSettings(namespace="n").secret_policy == "open"


def annotated(name: str, **annotations: str) -> Callable[[Server], None]:
    def change(server: Server) -> None:
        keys = {f"fournos.dev/allowed-{key}": value for key, value in annotations.items()}
        server.patch(SECRET, Key("psap-secrets", name), {"metadata": {"annotations": keys}})

    return change


async def play(*before: Any, settings: JobSettings = SETTINGS, **kwargs: Any) -> Server:
    def setup(server: Server) -> None:
        for one in before:
            one(server)
        submit(server)

    resolver = Resolver({"secretRefs": ["my-creds"]})
    story = scenario(setup, resolver=lambda: resolver, settings=settings)
    return (await run(replace(story, **kwargs))).server


async def test_a_vault_entry_that_lets_another_namespace_in() -> None:
    server = await play(annotated("vault-my-creds", namespaces="team-b"))
    assert phase(server) == "Failed"
    assert "Secret 'vault-my-creds' does not let this job in" in job(server)["status"]["message"]
    assert server.list(SECRET, namespace=NS) == [] and server.list(WORKLOAD) == []


async def test_a_cluster_that_lets_another_owner_in_gets_no_run_and_keeps_no_quota() -> None:
    server = await play(annotated("kubeconfig-cluster-1", owners="bob"))
    assert phase(server) == "Failed"
    status = job(server)["status"]["message"]
    assert status.startswith(
        "Failed to copy kubeconfig: Secret 'kubeconfig-cluster-1' does not let this job in"
    )
    assert server.list(SECRET, namespace=NS) == [] and server.list(PIPELINE_RUN) == []
    assert server.list(WORKLOAD) == []


async def test_a_list_that_comes_after_the_resolver_counts_at_the_launch() -> None:
    """The annotation is written when the job's first Secret is read: after the check of the resolver."""
    looked: list[int] = []

    def later(server: Server) -> None:
        if server.list(WORKLOAD) and not looked:
            looked.append(1)
            annotated("vault-my-creds", namespaces="team-b")(server)

    server = await play(actors=(later,))
    assert looked and phase(server) == "Failed"
    assert "does not let this job in" in job(server)["status"]["message"]


async def test_listed_lets_in_what_is_listed() -> None:
    server = await play(settings=LISTED)
    assert phase(server) == "Failed"
    lists = [annotated(one, namespaces=NS) for one in ("vault-my-creds", "kubeconfig-cluster-1")]
    assert phase(await play(*lists, settings=LISTED)) == "Succeeded"
