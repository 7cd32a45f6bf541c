"""Every setting of the Fournos README's table has an effect; the defaults are the table's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import JOB, SECRET, Key
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, WORKLOAD
from fournos.systems.jobs.settings import (
    LABELS,
    NAMESPACES,
    OWNERS,
    JobSettings,
    load_template,
    secret_consumer,
    template_roots,
)
from tests.unit.systems.jobs.actors import (
    NS,
    SETTINGS,
    Kueue,
    Resolver,
    Tekton,
    deleted,
    edit,
    job,
    phase,
    submit,
)
from tests.unit.systems.jobs.test_lifecycle import scenario
from tests.unit.systems.jobs.test_names_and_adoption import finished
from tests.world.harness import run
from tests.world.server import Server


async def play(setup: Any = submit, *, actors: Any = None, script: Any = (), **settings: Any) -> Server:
    return await finished(setup, cast=actors, script=script, settings=SETTINGS.model_copy(update=settings))


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_NAMESPACE", "n")
    settings = JobSettings()
    assert (
        settings.secrets_namespace,
        settings.tekton_dashboard_url,
        settings.kubeconfig_secret_pattern,
        settings.vault_secret_pattern,
        settings.kueue_local_queue_name,
        settings.gpu_resource_prefix,
        settings.gc_interval_sec,
        settings.resolve_deadline_sec,
        settings.resolve_job_template,
        settings.artifact_pvc_size,
    ) == (
        "psap-secrets",
        "",
        "kubeconfig-{cluster}",
        "vault-{entry}",
        "fournos-queue",
        "fournos/gpu-",
        300,
        300,
        "config/forge/resolve_job.yaml",
        "1Gi",
    )


async def test_a_shared_job_without_gpus_runs_where_the_setting_allows_it() -> None:
    def shared(server: Server) -> None:
        submit(server, cluster=None, exclusive=False)

    server = await play(shared)
    assert phase(server) == "Failed"
    assert condition(job(server), "Resolved")["reason"] == "NoHardware"  # type: ignore[index]
    assert "set FOURNOS_HARDWARE_REQUIRED=false" in job(server)["status"]["message"]

    server = await play(shared, actors=[Resolver(), Kueue()], hardware_required=False)
    (workload,) = server.list(WORKLOAD)
    (pods,) = workload["spec"]["podSets"]
    requests = pods["template"]["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"fournos/cluster-slot": "1"}
    assert (await play(shared, hardware_required=False)).list(FOURNOS_JOB)[0]["status"][
        "phase"
    ] == "Succeeded"


async def test_size_of_the_artifacts_volume() -> None:
    server = await play(artifact_pvc_size="7Gi")
    (workspace,) = server.get(PIPELINE_RUN, Key(NS, "job"))["spec"]["workspaces"]
    assert workspace["name"] == "artifacts"
    claim = workspace["volumeClaimTemplate"]["spec"]
    assert claim["resources"]["requests"]["storage"] == "7Gi"


async def test_deadline_of_the_resolver_and_its_environment() -> None:
    server = await play(resolve_deadline_sec=42)
    spec = server.get(JOB, Key(NS, "job-resolve"))["spec"]
    assert spec["activeDeadlineSeconds"] == 42
    (container,) = spec["template"]["spec"]["containers"]
    assert container["image"] == "engine:1"
    assert {e["name"]: e["value"] for e in container["env"]} == {
        "FJOB_NAME": "job",
        "FOURNOS_NAMESPACE": NS,
        "FOURNOS_WORKLOAD_NAMESPACE": NS,
    }


async def test_local_queue_and_gpu_prefix() -> None:
    def setup(server: Server) -> None:
        groups = [{"coveredResources": ["acme/x-a100", "fournos/cluster-slot"]}]
        server.patch(CLUSTER_QUEUE, Key("", "fournos-queue"), {"spec": {"resourceGroups": groups}})
        submit(server, hardware={"gpuType": "a100", "gpuCount": 2})

    server = await play(
        setup, actors=[Resolver()], kueue_local_queue_name="mine", gpu_resource_prefix="acme/x-"
    )
    workload = server.get(WORKLOAD, Key(NS, "job"))
    assert (
        workload["spec"]["queueName"] == workload["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "mine"
    )
    (pods,) = workload["spec"]["podSets"]
    requests = pods["template"]["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"acme/x-a100": "2", "fournos/cluster-slot": "100"}


async def test_where_secrets_are_and_what_they_are_called() -> None:
    def setup(server: Server) -> None:
        labels = {"fournos.dev/vault-entry": "true"}
        for name, of in (("cluster-1.kube", {}), ("v.a", labels)):
            meta = {"name": name, "namespace": "elsewhere", "labels": of}
            server.create(SECRET, {"metadata": meta, "data": {"kubeconfig": "eA=="}})
        submit(server, secretRefs=["a"])

    server = await play(
        setup,
        secrets_namespace="elsewhere",
        kubeconfig_secret_pattern="{cluster}.kube",
        vault_secret_pattern="v.{entry}",
    )
    assert phase(server) == "Succeeded"
    copies = {secret["metadata"]["name"] for secret in server.list(SECRET, namespace=NS)}
    assert copies == {"job-kubeconfig", "job-v.a"}


@pytest.mark.parametrize(
    ("setting", "ending", "kueue"),
    [
        ("stop_grace_sec", edit(shutdown="Stop"), Kueue()),
        ("deletion_grace_sec", deleted, Kueue()),
        ("eviction_grace_sec", None, Kueue(evict=[("job", "Preempted")])),
    ],
)
async def test_how_long_an_end_may_take(
    setting: str, ending: Any, kueue: Kueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that does not end is cancelled at once after the grace, and deleted terminate_grace_sec later."""
    requested: dict[str, float] = {}

    def watch(server: Server) -> None:
        found = server.find(PIPELINE_RUN, Key(NS, "job"))
        if found or "Cancelled" in requested:
            how = found["spec"].get("status", "") if found else "deleted"
            requested.setdefault(str(how), server.clock.monotonic())

    actors = [Resolver(), kueue, Tekton(deaf={"job"}), watch]
    monkeypatch.setattr(JobSettings, "terminate_grace_sec", 7.0)
    graces = {setting: 50.0} if setting in JobSettings.model_fields else {}
    if not graces:
        monkeypatch.setattr(JobSettings, setting, 50.0)
    await play(actors=actors, script=[ending] if ending else [], **graces)
    assert requested["Cancelled"] - requested["CancelledRunFinally"] == pytest.approx(50, abs=2)
    assert requested["deleted"] - requested["Cancelled"] == pytest.approx(7, abs=2)


@pytest.mark.parametrize("pattern", ["kubeconfig", "{cluster}-{cluster}", "{entry}"])
def test_a_pattern_without_its_placeholder_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="exactly once"):
        JobSettings(namespace="n", kubeconfig_secret_pattern=pattern)


def test_config_is_found_whatever_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    template = load_template(JobSettings(namespace="n").resolve_job_template, roots=template_roots())
    assert template.error == ""
    assert template.body is not None
    assert template.body["kind"] == "Job"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind: Pod", "is not a batch/v1 Job"),
        ("kind: Job\nspec: {template: {spec: {containers: []}}}", "has no container"),
        ("{", "cannot be read"),
        (
            "kind: Job\nspec: {template: {spec: {serviceAccountName: fournos, containers: [{name: c}]}}}",
            "ServiceAccount fournos is for an operator",
        ),
    ],
)
def test_an_invalid_template_has_a_reason(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(text)
    template = load_template("job.yaml", roots=(tmp_path,))
    assert template.body is None
    assert problem in template.error
    assert load_template("other.yaml", roots=(tmp_path,)).error == "no such file"


# --- a few words of the contract that no other test reads -----------------------------------------------


async def test_stopped_while_it_is_resolved_takes_the_resolver_with_it() -> None:
    def stop(server: Server) -> None:
        assert phase(server) == "Resolving"
        edit(shutdown="Stop")(server)

    server = await play(actors=[Kueue(), Tekton()], script=[stop])
    assert phase(server) == "Stopped"
    assert server.list(JOB) == []


async def test_a_clusterless_job_reports_it_and_needs_neither_quota_nor_known_gpus() -> None:
    server = await play(
        lambda s: submit(
            s, cluster=None, exclusive=False, clusterless=True, hardware={"gpuType": "b300", "gpuCount": 1}
        )
    )
    assert (phase(server), job(server)["status"]["cluster"]) == ("Succeeded", "[clusterless]")
    assert is_true(job(server), "Resolved")
    assert condition(job(server), "WorkloadAdmitted")["reason"] == "ClusterlessAdmitted"  # type: ignore[index]
    assert server.list(WORKLOAD) == []
    params = {p["name"]: p["value"] for p in server.get(PIPELINE_RUN, Key(NS, "job"))["spec"]["params"]}
    assert params["kubeconfig-secret"] == "fournos-clusterless-placeholder"


@pytest.mark.parametrize("image", ["", "mirror.example/kubectl:1"])
async def test_the_connectivity_check_has_the_pipelines_image_or_the_settings(image: str) -> None:
    server = await play(validation_image=image)
    params = {p["name"]: p["value"] for p in server.get(PIPELINE_RUN, Key(NS, "job"))["spec"]["params"]}
    assert params.get("validation-image", "") == image


async def test_free_slots_are_not_called_locked() -> None:
    server = await play(actors=[Resolver(), Kueue(slots={"cluster-1": 50}), Tekton()])
    assert phase(server) == "Pending"
    status = job(server)["status"]["message"]
    assert status.startswith("Waiting for admission: couldn't assign flavors")
    assert "locked" not in status


async def test_env_is_the_engine_s_to_read() -> None:
    server = await play(lambda s: submit(s, env={"OCPCI_SUITE": "regression"}))
    for made in (server.get(PIPELINE_RUN, Key(NS, "job")), server.get(JOB, Key(NS, "job-resolve"))):
        assert "OCPCI_SUITE" not in str(made)


async def test_no_secret_leaves_the_secrets(caplog: pytest.LogCaptureFixture) -> None:
    """Neither plain nor encoded: in no object but Secrets, and in no log."""
    caplog.set_level("DEBUG")
    hidden = ("c2VjcmV0LXRva2Vu", "secret-token", "a2V5LW9mLWNsdXN0ZXI=", "key-of-cluster")

    def setup(server: Server) -> None:
        server.patch(SECRET, Key("psap-secrets", "vault-my-creds"), {"data": {"token": hidden[0]}})
        server.patch(SECRET, Key("psap-secrets", "kubeconfig-cluster-1"), {"data": {"kubeconfig": hidden[2]}})
        submit(server, secretRefs=["my-creds"])

    server = await play(setup)
    assert phase(server) == "Succeeded"
    copies = str(server.list(SECRET, namespace=NS))
    assert hidden[0] in copies
    assert hidden[2] in copies
    for resource in (FOURNOS_JOB, WORKLOAD, PIPELINE_RUN, JOB):
        assert not [text for text in hidden if text in str(server.list(resource))]
    assert not [text for text in hidden if text in caplog.text]


# --- allow ---------------------------------------------------------------------------------------------
# Which jobs may use a Secret: annotations on it, and a setting for those without.

A_JOB = {"metadata": {"namespace": "bench", "labels": {"team": "llm"}}, "spec": {"owner": "ann"}}
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
        refusal = secret_consumer(A_JOB, policy)("s", annotations)  # type: ignore[arg-type]
        assert (refusal == "") == lets_in
        assert lets_in or all(word in refusal for word in ("Secret 's'", *list(annotations)[-1:]))


def test_a_job_without_an_owner_is_on_no_list_of_owners() -> None:
    assert secret_consumer({**A_JOB, "spec": {}}, "open")("s", {OWNERS: ","})


def test_without_a_list_the_setting_counts() -> None:
    assert secret_consumer(A_JOB, "open")("s", {}) == ""
    assert "FOURNOS_SECRET_POLICY=listed" in secret_consumer(A_JOB, "listed")("s", {})
    assert JobSettings(namespace="n").secret_policy == "open"


def annotated(name: str, **annotations: str) -> Callable[[Server], None]:
    def change(server: Server) -> None:
        keys = {f"fournos.dev/allowed-{key}": value for key, value in annotations.items()}
        server.patch(SECRET, Key("psap-secrets", name), {"metadata": {"annotations": keys}})

    return change


async def allowed_play(*before: Any, settings: JobSettings = SETTINGS, **kwargs: Any) -> Server:
    def setup(server: Server) -> None:
        for one in before:
            one(server)
        submit(server)

    resolver = Resolver({"secretRefs": ["my-creds"]})
    story = scenario(setup, resolver=lambda: resolver, settings=settings)
    return (await run(replace(story, **kwargs))).server


async def test_a_cluster_that_lets_another_owner_in_gets_no_run_and_keeps_no_quota() -> None:
    server = await allowed_play(annotated("kubeconfig-cluster-1", owners="bob"))
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

    server = await allowed_play(actors=(later,))
    assert looked and phase(server) == "Failed"
    assert "does not let this job in" in job(server)["status"]["message"]


async def test_listed_lets_in_what_is_listed() -> None:
    server = await allowed_play(settings=LISTED)
    assert phase(server) == "Failed"
    lists = [annotated(one, namespaces=NS) for one in ("vault-my-creds", "kubeconfig-cluster-1")]
    assert phase(await allowed_play(*lists, settings=LISTED)) == "Succeeded"
