"""The admission policies of manifests/rbac on a real API server: who may write which field."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from devcluster import manifests
from fournos.engine.runtime.webhook.registration import Address, configurations
from fournos.systems.jobs.own_job import job_webhooks
from fournos.systems.jobs.settings import JobSettings
from tests.integration.conftest import PLURALS, Server
from tests.unit.systems.schedules.actors import LOCK_TEMPLATE, schedule
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
JOBS = "/apis/fournos.dev/v1/namespaces/{}/fournosjobs"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads"
HELD = "fournos-lock-held"
CLUSTER_ROLE = ROOT / "deploy" / "clusterrole.yaml"


class As:
    """Sends requests as a ServiceAccount of the test's namespace, or as another user."""

    def __init__(self, server: Server, namespace: str) -> None:
        self._server = server
        self.namespace = namespace
        self.jobs, self.workloads = JOBS.format(namespace), WORKLOADS.format(namespace)

    async def __call__(
        self, account: str, method: str, path: str, body: Any, *, namespace: str | None = None, **query: str
    ) -> tuple[int, str]:
        kind = "merge-patch+json" if method == "PATCH" else "json"
        where = self.namespace if namespace is None else namespace
        user = {"Impersonate-User": f"system:serviceaccount:{where}:{account}"} if account else {}
        status, answer = await self._server(
            method, path, body, content_type=f"application/{kind}", headers=user, **query
        )
        return status, str(answer.get("message", ""))

    async def may(self, account: str, method: str, path: str, body: Any, **kwargs: Any) -> None:
        status, message = await self(account, method, path, body, **kwargs)
        assert status in (200, 201), f"{account or 'the administrator'}: {message}"

    async def may_not(
        self, account: str, method: str, path: str, body: Any, *reported: str, **kwargs: Any
    ) -> None:
        status, message = await self(account, method, path, body, **kwargs)
        assert status in (403, 422) and "ValidatingAdmissionPolicy" in message, (status, message)
        assert all(one in message for one in reported), message

    async def until_refused(self, *probe: Any) -> None:
        """Waits until the API server has read the policy that refuses this request, and the rights to it."""

        async def refused() -> bool:
            return "ValidatingAdmissionPolicy" in (await self(*probe, dryRun="All"))[1]

        await until(refused, f"no policy refuses {probe}", pause=0.1)


def job(name: str, **spec: Any) -> dict[str, Any]:
    whole = {"cluster": "c", "executionEngine": {"forge": {"project": "x"}}, **spec}
    return {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosJob",
        "metadata": {"name": name},
        "spec": {key: value for key, value in whole.items() if value is not None},
    }


def workload(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1m"}}}
    pod = {"containers": [container], "restartPolicy": "Never"}
    pod_set = {"name": "main", "count": 1, "template": {"spec": pod}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"queueName": "fournos-queue", "podSets": [pod_set], **spec},
    }


def reference(name: str) -> dict[str, str]:
    return {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": name}


# What users of a namespace usually may, and more: what is refused here is refused by a policy.
USERS = [
    {"apiGroups": ["fournos.dev"], "resources": ["fournosjobs", "fournosjobs/status"], "verbs": ["*"]},
    {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads"], "verbs": ["*"]},
    {"apiGroups": ["", "batch"], "resources": ["configmaps", "jobs"], "verbs": ["*"]},
    {"apiGroups": ["tekton.dev"], "resources": ["pipelineruns", "taskruns"], "verbs": ["*"]},
    {"apiGroups": ["workload.codeflare.dev"], "resources": ["appwrappers"], "verbs": ["*"]},
    {"apiGroups": ["flux-framework.org"], "resources": ["miniclusters"], "verbs": ["*"]},
]


async def grant(
    server: Server, namespace: str, account: str, rules: list[dict[str, Any]], *, home: str = ""
) -> None:
    """Gives the ServiceAccount, of the namespace or of `home`, these rights in the namespace."""
    api = "rbac.authorization.k8s.io"
    path = f"/apis/{api}/v1/namespaces/{namespace}"
    meta = {"name": f"test-{account}"}
    body = {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": meta, "rules": rules}
    await server.apply(f"{path}/roles/test-{account}", body)
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": api, "kind": "Role", "name": f"test-{account}"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": home or namespace}],
    }
    await server.apply(f"{path}/rolebindings/test-{account}", binding)


@pytest.fixture
async def who(server: Server, crds: None, namespace: str, rights: None) -> AsyncIterator[As]:
    """The published rights, users with everything but `update` of the status, and Hearth's own."""
    found = As(server, namespace)
    status = {"apiGroups": ["fournos.dev"], "resources": ["fournosjobs/status"], "verbs": ["get", "patch"]}
    jobs = {**USERS[0], "resources": ["fournosjobs"]}
    await grant(server, namespace, "user", [jobs, status, *USERS[1:]])
    for one in manifests.parse(CLUSTER_ROLE.read_text()):
        where = {"psap-automation": namespace}.get(one["metadata"].get("namespace") or "")
        if where is None and one["metadata"].get("namespace"):
            continue
        if where:
            one["metadata"]["namespace"] = where
        path = PLURALS[one["kind"]].format(namespace=where)
        await server.apply(f"{path}/{one['metadata']['name']}", one)
    await found.may("", "POST", found.jobs, job("probe"))
    labelled = {"name": "x", "labels": {"kueue.x-k8s.io/priority-class": HELD}}
    probes = (
        ("default", "PATCH", f"{found.jobs}/probe/status", {"status": {"phase": "Failed"}}),
        ("fournos-resolver", "PATCH", f"{found.jobs}/probe", {"spec": {"owner": "x"}}),
        ("user", "POST", found.workloads, workload("x", priority=1_000_000_000)),
        ("user", "POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": labelled}),
    )
    for probe in probes:
        await found.until_refused(*probe)
    yield found


async def test_an_engine_writes_its_own_status_and_nothing_else(who: As) -> None:
    await who.may("user", "POST", who.jobs, job("victim"))
    path = f"{who.jobs}/victim/status"
    for account in ("default", "pipeline", "user"):
        await who.may(account, "PATCH", path, {"status": {"engineStatus": {"step": account}}})
        for forged in (
            {"phase": "Succeeded"},
            {"phase": "Admitted", "cluster": "c", "attempt": 1},
            {"attempts": [{"number": 1, "workload": "another"}]},
            {"conditions": [], "engineStatus": {"step": "x"}},
        ):
            await who.may_not(account, "PATCH", path, {"status": forged}, "status.engineStatus")
    phase = {"phase": "Running", "message": "m", "attempt": 1}
    await who.may("fournos", "PATCH", path, {"status": phase})
    await who.may_not("default", "PATCH", path, {"status": {"phase": None}})
    await who.may_not("default", "PATCH", path, {"status": {"phase": "Running", "message": "mine"}})
    await who.may("default", "PATCH", path, {"status": {**phase, "engineStatus": {"step": "more"}}})
    await who.may("default", "PATCH", path, {"status": {"engineStatus": None}})


async def test_the_recorder_archives_and_writes_nothing_else(who: As, server: Server) -> None:
    """Who may `create` runs of the history writes status.archivedAt, and not even status.engineStatus."""
    status = {"apiGroups": ["fournos.dev"], "resources": ["fournosjobs/status"], "verbs": ["patch"]}
    runs = {"apiGroups": ["history.fournos.dev"], "resources": ["runs"], "verbs": ["create"]}
    await grant(server, who.namespace, "recorder", [status, runs])
    await who.may("user", "POST", who.jobs, job("victim"))
    path = f"{who.jobs}/victim/status"
    now = "2030-01-01T00:00:00Z"
    archived = {"status": {"archivedAt": now}}
    await who.may("recorder", "PATCH", path, archived)
    await who.may("recorder", "PATCH", path, {"status": {"archivedAt": now, "suspectedAt": now}})
    for forged in ({"phase": "Succeeded"}, {"engineStatus": {"step": "x"}}, {"conditions": []}):
        await who.may_not("recorder", "PATCH", path, {"status": forged}, "status.archivedAt")
    for account in ("default", "user"):
        for field in ("archivedAt", "suspectedAt"):
            await who.may_not(account, "PATCH", path, {"status": {field: None}}, "status.engineStatus")
    await who.may("fournos", "PATCH", path, {"status": {"archivedAt": None}})


async def test_the_webhook_is_asked_about_engines_and_resolvers_alone(who: As, server: Server) -> None:
    """Nothing answers at its address here, so who is refused is whom the API server asks it about."""
    status = {"apiGroups": ["fournos.dev"], "resources": ["fournosjobs/status"], "verbs": ["patch"]}
    runs = {"apiGroups": ["history.fournos.dev"], "resources": ["runs"], "verbs": ["create"]}
    await grant(server, who.namespace, "recorder", [status, runs])
    await who.may("user", "POST", who.jobs, job("asked"))
    hooks = job_webhooks(JobSettings(namespace=who.namespace))
    ((resource, name), body), *_ = configurations(hooks, Address("https://127.0.0.1:1"), owner="x").items()
    path = f"/apis/admissionregistration.k8s.io/v1/{resource.plural}/{name}"
    engine = ("default", "PATCH", f"{who.jobs}/asked/status", {"status": {"engineStatus": {"step": "x"}}})
    await server.apply(path, body)
    try:
        await until(partial(_asked, who, *engine), "the webhook is not registered", pause=0.1)
        assert await _asked(
            who, "fournos-resolver", "PATCH", f"{who.jobs}/asked", {"spec": {"secretRefs": []}}
        )
        archived = {"status": {"archivedAt": "2030-01-01T00:00:00Z"}}
        await who.may("recorder", "PATCH", f"{who.jobs}/asked/status", archived)
        await who.may("fournos", "PATCH", f"{who.jobs}/asked/status", {"status": {"message": "m"}})
        await who.may("user", "PATCH", f"{who.jobs}/asked", {"spec": {"displayName": "d"}})
    finally:
        await server("DELETE", path)


async def _asked(user: As, *request: Any) -> bool:
    _, message = await user(*request, dryRun="All")
    return "failed calling webhook" in message


async def test_only_the_operator_makes_reruns_and_their_labels_are_immutable(who: As) -> None:
    """A rerun counts as a repeat of another job, under the owner and the priority that it was made with."""

    def rerun(name: str, **spec: Any) -> dict[str, Any]:
        found = job(name, **spec)
        found["metadata"]["labels"] = {"fournos.dev/confirms": "uid-of-another"}
        return found

    await who.may_not("user", "POST", who.jobs, rerun("forged"), "label fournos.dev/confirms")
    await who.may("user", "POST", who.jobs, job("plain", owner="o"))
    label = {"metadata": {"labels": {"fournos.dev/confirms": "uid-of-another"}}}
    await who.may_not("user", "PATCH", f"{who.jobs}/plain", label, "label fournos.dev/confirms")
    await who.may("fournos", "POST", who.jobs, rerun("real", owner="o"))
    path = f"{who.jobs}/real"
    for forged in (
        {"spec": {"owner": "another"}},
        {"spec": {"priority": "high"}},
        {"spec": {"cluster": "another"}},
        {"spec": {"env": {"A": "b"}}},
        {"spec": {"executionEngine": {"forge": {"project": "evil"}}}},
        {"spec": {"confirm": {"repeats": 5}}},
        {"spec": {"ttl": "1m"}},
        {"spec": {"hardware": {"gpuType": "h200", "gpuCount": 8}}},
        {"spec": {"owner": None}},
    ):
        await who.may_not("user", "PATCH", path, forged, "repeats its job")
    await who.may_not("user", "PATCH", path, {"metadata": {"labels": None}}, "label fournos.dev/confirms")
    hardware = {"gpuType": "a100", "gpuCount": 2}
    await who.may("fournos-resolver", "PATCH", path, {"spec": {"hardware": hardware}})
    other = {"spec": {"hardware": {**hardware, "gpuCount": 1}}}
    await who.may_not("fournos-resolver", "PATCH", path, other, "repeats its job")
    await who.may("user", "PATCH", path, {"spec": {"suspend": True}})
    await who.may("user", "PATCH", path, {"spec": {"shutdown": "Stop"}})
    await who.may("user", "DELETE", path, {})


async def test_only_the_operator_makes_the_jobs_of_schedules(who: As) -> None:
    """A job that counts as a schedule's holds the next ones back, and the schedule may stop and delete it."""
    uid = {"metadata": {"labels": {"fournos.dev/schedule-uid": "uid-of-a-schedule"}}}

    def child(name: str) -> dict[str, Any]:
        made = job(name)
        return {**made, "metadata": {**made["metadata"], **uid["metadata"]}}

    label = "label fournos.dev/schedule-uid"
    await who.may_not("user", "POST", who.jobs, child("forged"), label)
    await who.may("user", "POST", who.jobs, job("own"))
    await who.may_not("user", "PATCH", f"{who.jobs}/own", uid, label)
    await who.may("fournos", "POST", who.jobs, child("real"))
    await who.may_not("user", "PATCH", f"{who.jobs}/real", {"metadata": {"labels": None}}, label)
    await who.may("user", "PATCH", f"{who.jobs}/real", {"spec": {"shutdown": "Stop"}})
    await who.may("user", "DELETE", f"{who.jobs}/real", {})


async def test_a_schedule_takes_the_rights_that_its_jobs_take(who: As, server: Server) -> None:
    """Who may not create the job may not put it into a schedule, nor have one go on that is paused."""
    schedules = who.jobs.replace("fournosjobs", "fournosschedules")
    path = f"{schedules}/nightly"
    own = {"apiGroups": ["fournos.dev"], "resources": ["fournosschedules"], "verbs": ["*"]}
    jobs = {"apiGroups": ["fournos.dev"], "resources": ["fournosjobs"]}
    await grant(server, who.namespace, "planner", [own])
    await grant(server, who.namespace, "author", [own, {**jobs, "verbs": ["create"]}])
    await grant(server, who.namespace, "keeper", [own, {**jobs, "verbs": ["create", "patch", "delete"]}])

    def made(**fields: Any) -> dict[str, Any]:
        whole = schedule(**fields)
        return {**whole, "metadata": {**whole["metadata"], "namespace": who.namespace}}

    await who.until_refused("planner", "POST", schedules, made())
    await who.may_not("planner", "POST", schedules, made(), "may not create FournosJobs")
    await who.may("author", "POST", schedules, made())
    for spec, verb in (
        ({"concurrencyPolicy": "Replace"}, "patch"),
        ({"historyLimits": {"failed": 1}}, "delete"),
    ):
        await who.may_not("author", "POST", schedules, made(name="x", **spec), f"may not {verb} FournosJobs")
        await who.may_not("author", "PATCH", path, {"spec": spec}, f"may not {verb} FournosJobs")
        await who.may("keeper", "POST", schedules, made(name="x", **spec), dryRun="All")
    # Who edits it answers for all of it, whoever wrote the rest.
    await who.may("keeper", "PATCH", path, {"spec": {"concurrencyPolicy": "Replace"}})
    await who.may_not("author", "PATCH", path, {"spec": {"timeZone": "Asia/Tokyo"}}, "may not patch")
    trigger = {"metadata": {"annotations": {"fournos.dev/trigger": "now"}}}
    await who.may_not("planner", "PATCH", path, trigger, "may not create FournosJobs")
    await who.may("author", "PATCH", path, trigger)
    await who.may("planner", "PATCH", path, {"metadata": {"labels": {"team": "perf"}}})
    # Everybody who may write it pauses it, the operator, too; to go on is to have it create jobs.
    await who.may("planner", "PATCH", path, {"spec": {"suspend": {"until": "2126-01-01T00:00:00Z"}}})
    earlier = {"spec": {"suspend": {"until": "2020-01-01T00:00:00Z"}}}
    await who.may_not("planner", "PATCH", path, earlier, "may not create FournosJobs")
    await who.may("fournos", "PATCH", path, {"spec": {"suspend": {"reason": "failed", "until": None}}})
    for change in (earlier, {"spec": {"suspend": None}}):
        await who.may_not("planner", "PATCH", path, change, "may not create FournosJobs")
        await who.may_not("author", "PATCH", path, change, "may not patch FournosJobs")
    await who.may("planner", "PATCH", path, {"spec": {"suspend": {"reason": "new GPUs"}}})
    await who.may("keeper", "PATCH", path, {"spec": {"suspend": None}})
    locked = made(name="locked", jobTemplate=LOCK_TEMPLATE)
    await who.may_not("keeper", "POST", schedules, locked, "WorkloadPriorityClass fournos-lock-held")
    for label in ("fournos.dev/confirms", "fournos.dev/schedule-uid"):
        template = {**LOCK_TEMPLATE, "metadata": {"labels": {label: "x"}}}
        borrowed = made(name="borrowed", jobTemplate=template)
        await who.may_not("keeper", "POST", schedules, borrowed, "are the operator's")


async def test_a_resolver_fills_in_hardware_and_secrets_and_nothing_else(who: As) -> None:
    await who.may("user", "POST", who.jobs, job("victim", exclusive=False, cluster=None, owner="o"))
    path = f"{who.jobs}/victim"
    hardware = {"gpuType": "a100", "gpuCount": 2}
    filled = {"spec": {"hardware": hardware, "secretRefs": ["placeholder"]}}
    await who.may("fournos-resolver", "PATCH", path, filled)
    for forged in (
        {"spec": {"shutdown": "Terminate"}},
        {"spec": {"owner": None}},
        {"spec": {"cluster": "another"}},
        {"spec": {"executionEngine": {"forge": {"project": "evil"}}}},
        {"spec": {"hardware": hardware, "priority": "high"}},
        {"metadata": {"labels": {"x": "y"}}},
        {"metadata": {"annotations": {"x": "y"}}},
        {"metadata": {"finalizers": ["x.example.com/y"]}},
    ):
        await who.may_not("fournos-resolver", "PATCH", path, forged, "a resolver may write")
    await who.may("user", "PATCH", path, {"spec": {"owner": "another"}})


async def test_the_own_job_webhook_is_one_that_the_api_server_takes(server: Server) -> None:
    path = ROOT / "deploy" / "job-webhooks" / "webhooks.yaml"
    (body,) = manifests.parse(path.read_text())
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    status, answer = await server("POST", hooks, body, dryRun="All")
    assert status == 201, answer


async def test_only_hearth_gives_the_priority_of_a_held_lock(who: As) -> None:
    labelled = {"labels": {"kueue.x-k8s.io/priority-class": HELD}}
    for body, path in (
        (workload("x", priority=1_000_000_000), who.workloads),
        (workload("x", priority=2_000_000_000, priorityClassRef=reference("high")), who.workloads),
        (workload("x", priority=1, priorityClassRef=reference(HELD)), who.workloads),
    ):
        await who.may_not("user", "POST", path, body, "for locks of clusters only")
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", **labelled}}
    queued = f"/api/v1/namespaces/{who.namespace}/configmaps"
    await who.may_not("user", "POST", queued, config_map, "for locks of clusters only")
    nested = job("x")
    nested["metadata"] |= labelled
    await who.may_not("user", "POST", who.jobs, nested, "for locks of clusters only")

    await who.may("user", "POST", who.jobs, job("lock", lockOnly=True, executionEngine=None))
    await who.may("user", "POST", who.jobs, job("mine", priority="nightly"))
    await who.may_not(
        "user", "PATCH", f"{who.jobs}/mine", {"metadata": labelled}, "for locks of clusters only"
    )
    for account in ("", "user"):  # a rule of the CRD: also without policies, and for an administrator
        for body in (job("x", priority=HELD), job("x", lockOnly=True, executionEngine=None, priority=HELD)):
            status, message = await who(account, "POST", who.jobs, body)
            assert status == 422 and "for locks of clusters only" in message, message

    lock = workload("held", priority=-1_000_000_000, priorityClassRef=reference("fournos-lock-requested"))
    await who.may("fournos", "POST", who.workloads, lock)
    held = {"spec": {"priority": 1_000_000_000, "priorityClassRef": reference(HELD)}}
    path = f"{who.workloads}/held"
    for account in ("user", "fournos"):
        await who.may_not(account, "PATCH", path, held, "for locks of clusters only")
    await who.may("hearth", "PATCH", path, held, namespace="hearth")
    await who.may("user", "PATCH", path, {"metadata": {"labels": {"seen": "yes"}}})
    await who.may_not("user", "PATCH", path, {"spec": {"priority": 1_500_000_000}})
