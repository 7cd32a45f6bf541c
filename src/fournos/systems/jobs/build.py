"""Builders of the objects that a FournosJob owns, as pure functions of its spec and the settings."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from fournos.api.fournosjob import FournosJobSpec
from fournos.api.fournosjob_values import Gpus, Timeouts
from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.api.slots import UNAVAILABLE_TAINT
from fournos.engine.api.values import format_duration, parse_duration
from fournos.engine.kube.resource import JOB, Key, Obj, owner_reference
from fournos.engine.queueing.workload import PodSet, Priority, WorkloadRequest
from fournos.systems.jobs import names
from fournos.systems.jobs.settings import JobSettings

_FINALLY_SHARE = 10
"""Finally tasks get one of so many parts of `spec.timeouts.pipeline`, unless the job says otherwise."""
_NAMESPACE_VARIABLES = ("FOURNOS_NAMESPACE", "FOURNOS_WORKLOAD_NAMESPACE")


def resolve_job(job: Obj, *, template: Obj, image: str, settings: JobSettings) -> Obj:
    """Returns the resolve Job, which fills in hardware and secretRefs.

    It is the template with the image that the Pipeline names.

    The environment variables that the engine reads (FJOB_NAME, and the namespace under both of its names) are
    set whether or not the template lists them.
    """
    meta = job["metadata"]
    result = copy.deepcopy(dict(template))
    result["apiVersion"], result["kind"] = JOB.api_version, JOB.kind
    result["metadata"] = {
        "name": names.resolve_job_name(meta["name"]),
        "namespace": meta["namespace"],
        "labels": names.labels(meta["name"]),
        "ownerReferences": [owner_reference(FOURNOS_JOB, job)],
    }
    spec = result["spec"]
    spec["activeDeadlineSeconds"] = settings.resolve_deadline_sec
    pod = spec["template"]
    pod["metadata"] = {**(pod.get("metadata") or {}), "labels": names.labels(meta["name"])}
    container = pod["spec"]["containers"][0]
    container["image"] = image
    wanted = {"FJOB_NAME": meta["name"], **dict.fromkeys(_NAMESPACE_VARIABLES, meta["namespace"])}
    kept = [entry for entry in container.get("env") or () if entry["name"] not in wanted]
    container["env"] = kept + [{"name": name, "value": value} for name, value in wanted.items()]
    return result


def workload_request(
    job: Obj,
    spec: FournosJobSpec,
    *,
    hardware: Gpus | None,
    priority: Priority | None,
    attempt: int,
    name_taken: bool = False,
    settings: JobSettings,
) -> WorkloadRequest:
    """Returns the Workload to create for the next attempt.

    It requests slots of a cluster (all of them when exclusive or lockOnly) and GPUs.  A node selector pins it
    to `spec.cluster` when that is set.
    """
    meta = job["metadata"]
    pod = placeholder_pod(spec, slots_and_gpus(spec, hardware, settings.gpu_resource_prefix))
    return WorkloadRequest(
        key=Key(
            meta["namespace"], names.attempt_name(meta["name"], attempt, meta["uid"] if name_taken else "")
        ),
        queue=settings.kueue_local_queue_name,
        pod_sets=(PodSet(names.POD_SET, 1, {"spec": pod}),),
        owner=owner_reference(FOURNOS_JOB, job),
        labels=names.labels(meta["name"]),
        priority=priority,
    )


def placeholder_pod(spec: FournosJobSpec, requests: Mapping[str, str]) -> dict[str, Any]:
    """Returns the pod by which the Workload of a job asks for its quota; it never runs."""
    pod: dict[str, Any] = {
        "containers": [
            {
                "name": "placeholder",
                "image": "registry.k8s.io/pause:3.9",
                "resources": {"requests": dict(requests)},
            }
        ],
        "restartPolicy": "Never",
    }
    if spec.cluster:
        pod["nodeSelector"] = {names.CLUSTER_NODE_LABEL: spec.cluster}
    if spec.lock_only:  # tolerates a cluster that is unavailable: drained for this lock, or broken
        pod["tolerations"] = [{"key": UNAVAILABLE_TAINT, "operator": "Exists"}]
    return pod


def slots_and_gpus(spec: FournosJobSpec, hardware: Gpus | None, gpu_prefix: str) -> dict[str, str]:
    """Returns the resource requests: slots of a cluster (all for exclusive or lockOnly), and GPUs."""
    whole = spec.exclusive or spec.lock_only
    requests = {names.SLOT_RESOURCE: str(names.SLOTS_PER_CLUSTER if whole else 1)}
    if hardware:
        requests[gpu_resource(hardware, gpu_prefix)] = str(hardware.gpu_count)
    return requests


def requests_of(template: Obj) -> Mapping[str, str]:
    """Returns the resources that the placeholder pod of a job's Workload asks for."""
    (container, *_) = template["spec"]["containers"]
    return (container.get("resources") or {}).get("requests") or {}


def gpu_resource(hardware: Gpus, prefix: str) -> str:
    """Returns the resource name of a GPU type: the setting's prefix and the type in lower case."""
    return f"{prefix}{(hardware.gpu_type or '').lower()}"


def pipeline_run(
    job: Obj,
    spec: FournosJobSpec,
    *,
    cluster: str,
    name: str,
    attempt: int,
    secret_keys: Mapping[str, Sequence[str]],
    pipeline: Obj,
    settings: JobSettings,
) -> Obj:
    """Returns the PipelineRun of one attempt.

    `secret_keys` maps each `secretRefs` entry to its data keys.  Every key is mounted as
    `/var/run/secrets/fournos/<entry as written>/<key>` through the volume "vault-secrets".
    """
    meta = job["metadata"]
    job_name = meta["name"]
    kubeconfig = names.CLUSTERLESS_KUBECONFIG if spec.clusterless else names.kubeconfig_copy_name(job_name)
    labels = names.labels(job_name)
    timeouts = run_timeouts(spec.timeouts, settings, finally_tasks=has_finally_tasks(pipeline))
    return {
        "apiVersion": PIPELINE_RUN.api_version,
        "kind": PIPELINE_RUN.kind,
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": {**labels, names.ATTEMPT_LABEL: str(attempt)},
            "annotations": {names.CLUSTER_ANNOTATION: "" if spec.clusterless else cluster},
            "ownerReferences": [owner_reference(FOURNOS_JOB, job)],
            "finalizers": [names.RUN_FINALIZER],
        },
        "spec": {
            "pipelineRef": {"name": spec.pipeline},
            "params": [
                {"name": "fjob-name", "value": job_name},
                {"name": "fournos-namespace", "value": meta["namespace"]},
                {"name": "fournos-workload-namespace", "value": meta["namespace"]},
                {"name": "kubeconfig-secret", "value": kubeconfig},
                *_validation_image(settings),
                *({"name": param, "value": _value(value)} for param, value in spec.params.items()),
            ],
            "timeouts": timeouts,
            "taskRunSpecs": _task_limits(pipeline, timeouts),
            "taskRunTemplate": {
                "podTemplate": {
                    "volumes": [_vault_volume(job_name, secret_keys, settings)],
                    **_step_env(spec, pipeline),
                },
            },
            "workspaces": [_artifacts(labels, settings)],
        },
    }


def _value(value: str | tuple[str, ...]) -> str | list[str]:
    return value if isinstance(value, str) else list(value)


def _step_env(spec: FournosJobSpec, pipeline: Obj) -> dict[str, Any]:
    """Returns `spec.env` for all steps, if the Pipeline's annotation asks for it.

    An execution engine reads it in the FournosJob.
    """
    annotations = (pipeline.get("metadata") or {}).get("annotations") or {}
    if annotations.get(names.ENV_ANNOTATION) != "steps" or not spec.env:
        return {}
    return {"env": [{"name": name, "value": value} for name, value in spec.env.items()]}


def _vault_volume(
    job_name: str, secret_keys: Mapping[str, Sequence[str]], settings: JobSettings
) -> dict[str, Any]:
    """Returns the volume with all keys of the job's copies of Secrets."""
    sources = [
        {
            "secret": {
                "name": names.copy_name(job_name, settings.vault_secret(ref)),
                "items": [{"key": key, "path": f"{ref}/{key}"} for key in keys],
            }
        }
        for ref, keys in secret_keys.items()
    ]
    return {"name": "vault-secrets", "projected": {"sources": sources}}


def _artifacts(labels: Mapping[str, str], settings: JobSettings) -> dict[str, Any]:
    """Returns the workspace of a run's artifacts: a volume that is made for the run and deleted with it."""
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": settings.artifact_pvc_size}},
    }
    return {
        "name": "artifacts",
        "volumeClaimTemplate": {"metadata": {"labels": dict(labels)}, "spec": claim},
    }


def _validation_image(settings: JobSettings) -> list[dict[str, str]]:
    """Returns the parameter `validation-image`, or nothing if the setting is empty.

    Tekton ignores a parameter that the Pipeline does not declare, and uses the
    default of one that is not passed.
    """
    image = settings.validation_image
    return [{"name": "validation-image", "value": image}] if image else []


def _task_limits(pipeline: Obj, timeouts: Mapping[str, str]) -> list[dict[str, str]]:
    """Returns a timeout for every task without one.

    Tekton's default of one hour would end long tasks early.
    """
    spec = pipeline.get("spec") or {}
    return [
        {"pipelineTaskName": task["name"], "timeout": timeouts[limit]}
        for section, limit in (("tasks", "tasks"), ("finally", "finally"))
        for task in spec.get(section) or ()
        if not task.get("timeout")
    ]


def has_finally_tasks(pipeline: Obj) -> bool:
    """Returns False only for a Pipeline that is known to have none."""
    return not pipeline or bool((pipeline.get("spec") or {}).get("finally"))


def run_timeouts(timeouts: Timeouts | None, settings: JobSettings, *, finally_tasks: bool) -> dict[str, str]:
    """Returns the Tekton timeouts, as durations: all three, unless there are no finally tasks.

    Finally tasks keep their share when tasks run out of time.  A timeout that the job does not set is derived
    from those that it sets (pipeline = tasks + finally), or is the setting's value.  Of a job that sets the
    whole alone, finally tasks get a tenth, at most the setting's value; without finally tasks the tasks may
    use all of it, as in Tekton.
    """
    finally_ = (timeouts and timeouts.finally_) or settings.pipeline_finally_timeout
    tasks = (timeouts and timeouts.tasks) or settings.pipeline_tasks_timeout
    if not timeouts or not (timeouts.pipeline or timeouts.tasks or timeouts.finally_):
        return {"pipeline": settings.pipeline_timeout, "tasks": tasks, "finally": finally_}
    if not timeouts.pipeline:
        whole = parse_duration(tasks) + parse_duration(finally_)
        return {"pipeline": format_duration(whole), "tasks": tasks, "finally": finally_}
    whole = parse_duration(timeouts.pipeline)
    if timeouts.tasks:
        rest = format_duration(whole - parse_duration(timeouts.tasks))
        return {"pipeline": timeouts.pipeline, "tasks": tasks, "finally": timeouts.finally_ or rest}
    if not timeouts.finally_ and not finally_tasks:
        return {"pipeline": timeouts.pipeline, "tasks": timeouts.pipeline}
    if not timeouts.finally_:
        finally_ = format_duration(min(parse_duration(finally_), whole / _FINALLY_SHARE))
    rest = format_duration(whole - parse_duration(finally_))
    return {"pipeline": timeouts.pipeline, "tasks": rest, "finally": finally_}


def secret_copy(job: Obj, *, name: str, vault_entry: bool) -> dict[str, Any]:
    """Returns the metadata of a Secret's copy; Kubernetes deletes the copy with the job (owner reference)."""
    meta = job["metadata"]
    labels = names.labels(meta["name"])
    if vault_entry:
        labels[names.VAULT_ENTRY_LABEL] = "true"
    return {
        "name": name,
        "namespace": meta["namespace"],
        "labels": labels,
        "ownerReferences": [owner_reference(FOURNOS_JOB, job)],
    }


def dashboard_url(run: Obj, settings: JobSettings) -> str | None:
    """Returns the run's page on the Tekton Dashboard, or None if no dashboard is configured."""
    if not settings.tekton_dashboard_url:
        return None
    meta = run["metadata"]
    base = settings.tekton_dashboard_url.rstrip("/")
    return f"{base}/#/namespaces/{meta['namespace']}/pipelineruns/{meta['name']}"
