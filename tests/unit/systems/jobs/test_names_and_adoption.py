"""Objects that were there before: adopted, waited for or left alone; and spellings that mean the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.kube.resource import JOB, POD, SECRET, Key, owner_reference
from fournos.systems.jobs.part import jobs_controller
from fournos.systems.jobs.rules import check_manifest
from fournos.systems.jobs.settings import JobSettings, Template
from tests.unit.systems.jobs.actors import (
    NS,
    SETTINGS,
    TEMPLATE,
    Kueue,
    Resolver,
    Tekton,
    deleted,
    edit,
    environment,
    job,
    phase,
    submit,
)
from tests.world.harness import Scenario, in_order, run
from tests.world.server import Server


async def finished(
    setup: Callable[[Server], Any] = submit,
    *,
    writes: dict[str, Any] | None = None,
    resolver: Any = None,
    cast: Any = None,
    settings: JobSettings = SETTINGS,
    template: Template = TEMPLATE,
    script: Any = (),
    tekton: Tekton | None = None,
    horizon: float = 60.0,
) -> Server:
    """Returns the server at the end; `cast` are the actors in place of a Resolver, Kueue and Tekton."""
    cast = cast or [resolver or Resolver(writes or {}), Kueue(), tekton or Tekton()]
    begin = in_order(environment, setup)
    return (
        await run(Scenario(jobs_controller(settings, template), begin, cast, script, horizon=horizon))
    ).server


def status(server: Server) -> Any:
    return job(server).get("status") or {}


# --- names and adoption --------------------------------------------------------------------------------


def message(server: Server) -> str:
    return str(job(server)["status"]["message"])


async def test_the_resolve_job_of_another_job_is_not_adopted() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "other", "controller": True}

    def setup(server: Server) -> None:
        body = {"metadata": {"name": "job-resolve", "namespace": NS, "ownerReferences": [owner]}, "spec": {}}
        server.create(JOB, body)
        submit(server)

    server = await finished(setup, resolver=lambda _: None)
    assert phase(server) == "Failed"
    assert "Failed to create resolve Job" in message(server)
    assert "exists already and belongs to CronJob c" in message(server)


async def test_a_foreign_job_of_an_early_name_is_left_alone() -> None:
    """Neither followed, nor read, nor deleted: a resolver of ours is labelled as one."""

    def setup(server: Server) -> None:
        labels = {"app": "helpdesk"}
        meta = {"name": "resolve-job", "namespace": NS, "labels": labels}
        server.create(JOB, {"metadata": meta, "spec": {}})
        pod = {"batch.kubernetes.io/job-name": "job-resolve"}
        server.create(POD, {"metadata": {"name": "theirs", "namespace": NS, "labels": pod}})
        server.logs[Key(NS, "theirs")] = ["a secret of the helpdesk"]
        submit(server)

    def fails(server: Server) -> None:
        over = [{"type": "Failed", "status": "True", "reason": "x", "message": "boom"}]
        for one in ("resolve-job", "job-resolve"):
            server.patch(JOB, Key(NS, one), {"status": {"conditions": over}}, subresource="status")

    server = await finished(setup, resolver=lambda _: None, script=[fails])
    assert phase(server) == "Failed" and message(server).startswith("Resolution failed: boom")
    assert server.find(JOB, Key(NS, "resolve-job")) is not None

    server = await finished(setup, resolver=lambda _: None, script=[edit(shutdown="Stop")])
    assert phase(server) == "Stopped"
    assert server.find(JOB, Key(NS, "resolve-job")) is not None
    assert server.find(JOB, Key(NS, "job-resolve")) is None


async def test_what_a_deleted_job_of_the_same_name_left_is_waited_for() -> None:
    """Deleted and made again under its name: nothing of the first run counts for the second."""

    def setup(server: Server) -> None:
        submit(server)
        owner = owner_reference(FOURNOS_JOB, job(server))
        deleted(server)
        meta = {"name": "job", "namespace": NS, "ownerReferences": [owner]}
        server.create(PIPELINE_RUN, {"metadata": meta, "spec": {"old": True}})
        submit(server)

    server = await finished(setup, tekton=Tekton(endless={"job"}))
    assert phase(server) == "Running"
    assert "old" not in server.get(PIPELINE_RUN, Key(NS, "job"))["spec"]


@pytest.mark.parametrize("ref", ["my-creds", "vault-my-creds"])
async def test_both_spellings_of_a_secret_mean_the_same_and_the_directory_is_as_written(ref: str) -> None:
    server = await finished(lambda s: submit(s, secretRefs=[ref]))
    (volume,) = server.get(PIPELINE_RUN, Key(NS, "job"))["spec"]["taskRunTemplate"]["podTemplate"]["volumes"]
    (source,) = volume["projected"]["sources"]
    assert source["secret"]["name"] == "job-vault-my-creds"
    assert [item["path"] for item in source["secret"]["items"]] == [f"{ref}/password", f"{ref}/username"]


LONG = "team." + "x" * 240
"""With the prefix vault-, the longest name of a Secret but two; its copy's would be too long."""


async def test_every_name_that_a_secret_can_have_may_be_referred_to() -> None:
    def setup(server: Server) -> None:
        for entry in ("my.creds.v2", LONG):
            meta = {"name": f"vault-{entry}", "namespace": "psap-secrets"}
            labels = {"fournos.dev/vault-entry": "true"}
            server.create(SECRET, {"metadata": {**meta, "labels": labels}, "data": {"token": "YQ=="}})
        submit(server, secretRefs=["my.creds.v2", LONG])
        assert check_manifest(job(server)) == []

    server = await finished(setup)
    assert phase(server) == "Succeeded"
    (volume,) = server.get(PIPELINE_RUN, Key(NS, "job"))["spec"]["taskRunTemplate"]["podTemplate"]["volumes"]
    mounted = {one["secret"]["name"]: one["secret"]["items"] for one in volume["projected"]["sources"]}
    short, long = mounted
    assert short == "job-vault-my.creds.v2"
    assert len(long) == 253 and long.startswith("job-vault-team.xxx")
    assert [item["path"] for items in mounted.values() for item in items] == [
        "my.creds.v2/token",
        f"{LONG}/token",
    ]
    for name in mounted:
        assert server.get(SECRET, Key(NS, name))["data"] == {"token": "YQ=="}


async def test_a_foreign_secret_of_a_copy_s_name_is_neither_read_nor_changed() -> None:
    """Job "a" with entry "b-c" and job "a-b" with entry "c" would share a name: the second one fails."""
    foreign = {"metadata": {"name": "job-kubeconfig", "namespace": NS}, "data": {"kubeconfig": "eA=="}}

    def setup(server: Server) -> None:
        server.create(SECRET, foreign)
        submit(server)

    server = await finished(setup)
    assert phase(server) == "Failed"
    assert "Failed to copy kubeconfig" in message(server)
    assert "job-kubeconfig exists already" in message(server)
    assert server.get(SECRET, Key(NS, "job-kubeconfig"))["data"] == {"kubeconfig": "eA=="}
    assert server.list(PIPELINE_RUN) == []


@pytest.mark.parametrize("variable", ["FOURNOS_NAMESPACE", "FOURNOS_WORKLOAD_NAMESPACE"])
def test_both_names_of_the_namespace_setting(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FOURNOS_NAMESPACE", "FOURNOS_WORKLOAD_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "mine")
    assert JobSettings().namespace == "mine"
