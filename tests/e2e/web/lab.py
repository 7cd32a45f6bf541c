"""A scene: a performance lab on an ordinary day.  The pictures of the documentation show it."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any, Final

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB, FOURNOS_SCHEDULE, PIPELINE_RUN, TASK_RUN
from fournos.api.phase import Cause
from fournos.engine.api.values import format_time, parse_time
from fournos.engine.kube.resource import EVENT, POD, Key, Obj
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.history.fingerprint import fingerprint
from fournos.history.records import Document, Ending, Identity, Record, Run
from fournos.history.results.read import read_file
from fournos.history.store.results import Results
from fournos.insight.schedules import next_times
from fournos.systems.schedules.names import SCHEDULE_LABEL, SCHEDULE_UID_LABEL, TIME_LABEL
from tests.e2e.web.staged import CLUSTERS, NOW, NS, Stage, ago
from tests.unit.cli.objects import child, cluster_queue, local_queue

NIGHTS: Final = 24
"""Runs of the nightly benchmark."""
SLOWER: Final = 17
"""The night since which it is slower."""
NIGHTLY: Final = f"nightly-70b-{NIGHTS:02}"
BEFORE: Final = f"nightly-70b-{SLOWER - 1:02}"
FAILED: Final = "granite-8b-c256"
GPUS: Final = {"east": ("h200", 16), "lab-1": ("a100", 8), "lab-2": ("a100", 8), "edge": ("l40s", 4)}
LOADS: Final = (1, 8, 32, 64, 128)


async def lab(stage: Stage) -> None:
    """Fills API server and history."""
    _clusters(stage)
    _queue(stage)
    _running(stage)
    _waiting(stage)
    _failed(stage)
    _schedules(stage)
    for number in range(1, NIGHTS + 1):
        await _night(stage, number)


def _schedules(stage: Stage) -> None:
    """Two schedules; the jobs of the first are the nights."""
    for name, times, phase in (
        ("nightly-70b", "0 2 * * *", "Succeeded"),
        ("weekly-matrix", "30 6 * * 6", "Failed"),
    ):
        uid = f"uid-{name}"
        meta = {"name": name, "namespace": NS, "uid": uid, "generation": 1, "creationTimestamp": ago(days=40)}
        spec = {"schedules": [times], "timeZone": "Europe/Berlin", "jobTemplate": {"spec": {"owner": "ann"}}}
        body = {"apiVersion": "fournos.dev/v1", "kind": "FournosSchedule", "metadata": meta, "spec": spec}
        status = {"nextTime": format_time(next_times(body, 1, NOW)[0])}
        stage.objects.put(FOURNOS_SCHEDULE, {**body, "status": status})
        for fire in range(1, 9):
            began = {"Running": 60 * 24 * (9 - fire)}
            night = f"{NOW - timedelta(days=9 - fire):%Y%m%d}0000"
            labels = {SCHEDULE_LABEL: name, SCHEDULE_UID_LABEL: uid, TIME_LABEL: night}
            end = "Failed" if phase == "Failed" and fire in (3, 7) else "Succeeded"
            job(stage, f"{name}-{night}", end, began, labels=labels)


# --- objects --------------------------------------------------------------------------------------


def job(stage: Stage, name: str, phase: str, began: dict[str, float], **fields: Any) -> Obj:
    """`began`: minutes since each phase began."""
    kind, count, where = fields.pop("gpu", "h200"), fields.pop("gpus", 4), fields.pop("cluster", "")
    status = {
        "phase": phase,
        "phaseTimes": {name: ago(minutes=minutes) for name, minutes in began.items()},
        **fields.pop("status", {}),
    }
    if where and phase != "Pending":
        status = {"cluster": where, **status}
    meta = {
        "name": name,
        "namespace": NS,
        "uid": fields.pop("uid", f"uid-{name}"),
        "creationTimestamp": ago(minutes=max(began.values())),
        "labels": fields.pop("labels", {}),
    }
    spec = {
        "owner": fields.pop("owner", "ann"),
        "pipeline": "llm-d-benchmark",
        **({"cluster": where} if where else {}),
        "exclusive": False,
        "hardware": {"gpuType": kind, "gpuCount": count},
        "executionEngine": {"forge": {"project": "llm-d", "args": ["cks", "guidellm"]}},
        **fields,
    }
    body = {"apiVersion": "fournos.dev/v1", "kind": "FournosJob", "metadata": meta, "spec": spec}
    return stage.objects.put(FOURNOS_JOB, {**body, "status": status})


def _clusters(stage: Stage) -> None:
    locks: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "lab-2": (
            {"owner": "dana"},
            {"locked": True, "lockExpiresAt": ago(hours=-3),
             "lock": {"state": "Held", "owner": "dana", "heldSince": ago(hours=1),
                      "waiting": ["qwen-72b-fp8"]}},
        )
    }  # fmt: skip
    for name, (kind, count) in GPUS.items():
        spec, status = locks.get(name, ({}, {}))
        vendor = {"vendor": "nvidia", "model": f"NVIDIA-{kind.upper()}", "shortName": kind}
        gpus = [{**vendor, "count": count, "nodeCount": max(1, count // 8)}]
        stage.objects.put(
            FOURNOS_CLUSTER,
            {
                "apiVersion": "fournos.dev/v1",
                "kind": "FournosCluster",
                "metadata": {"name": name, "namespace": CLUSTERS},
                "spec": {"kubeconfigSecret": f"kubeconfig-{name}", **spec},
                "status": {
                    "kubeconfigStatus": "Valid",
                    "connection": {"version": "v1.33.4", "latencyMs": 12},
                    "hardware": {"gpus": gpus, "totalGpus": count, "lastDiscovery": ago(minutes=4)},
                    **status,
                },
            },
        )


def _queue(stage: Stage) -> None:
    used = {"east": 12, "lab-1": 8, "lab-2": 0, "edge": 1}
    quota = {
        name: {
            f"fournos/gpu-{kind}": (count, used[name]),
            "fournos/cluster-slot": (100, 100 * used[name] // count),
        }
        for name, (kind, count) in GPUS.items()
    }
    stage.objects.put(LOCAL_QUEUE, _here(local_queue()))
    stage.objects.put(CLUSTER_QUEUE, cluster_queue(quota))
    for name in GPUS:
        stage.objects.put(RESOURCE_FLAVOR, {"metadata": {"name": name}, "spec": {}})


def _here(obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "namespace": NS}}


def _running(stage: Stage) -> None:
    job(
        stage,
        "deepseek-r1-tp8",
        "Running",
        {"pending": 95, "running": 84},
        cluster="east",
        gpus=8,
        owner="cho",
    )
    job(
        stage,
        "llama-70b-c64",
        "Running",
        {"pending": 40, "running": 22},
        cluster="east",
        labels={"team": "llm-d"},
    )
    on_lab, on_edge = {"cluster": "lab-1", "gpu": "a100"}, {"cluster": "edge", "gpu": "l40s"}
    job(stage, "mixtral-8x7b-int4", "Running", {"pending": 51, "running": 49}, gpus=8, owner="ben", **on_lab)
    job(stage, "whisper-large-v3", "Running", {"pending": 9, "running": 6}, gpus=1, owner="dee", **on_edge)


def _waiting(stage: Stage) -> None:
    def waits(name: str, minutes: float, message: str, priority: int = 0, **fields: Any) -> None:
        given = job(stage, name, "Pending", {"pending": minutes}, status={"message": message}, **fields)
        kind, count = given["spec"]["hardware"]["gpuType"], given["spec"]["hardware"]["gpuCount"]
        where = given["spec"].get("cluster")
        pod = {
            "containers": [{"name": "c", "resources": {"requests": {f"fournos/gpu-{kind}": str(count)}}}],
            "nodeSelector": {"fournos.dev/cluster": where} if where else {},
        }
        stage.objects.put(WORKLOAD, workload(name, given["metadata"]["uid"], message, minutes, priority, pod))

    waits("llama-405b-tp8", 31, "8 x h200 are asked for, 4 are free in east", 100, gpus=8)
    waits("qwen-72b-fp8", 26, "lab-2 is locked by dana", cluster="lab-2", gpu="a100", gpus=8, owner="ben")
    waits(
        "phi-4-sweep-1", 12, "8 x a100 of lab-1 are in use", gpu="a100", gpus=2, cluster="lab-1", owner="dee"
    )
    waits(
        "phi-4-sweep-2", 12, "8 x a100 of lab-1 are in use", gpu="a100", gpus=2, cluster="lab-1", owner="dee"
    )


def workload(
    name: str, owner: str, message: str, minutes: float = 9, priority: int = 0, pod: Any = None
) -> Obj:
    """The Workload of a job that waits; `owner` is its UID."""
    return {
        "metadata": {
            "name": name,
            "namespace": NS,
            "creationTimestamp": ago(minutes=minutes),
            "labels": {"fournos.dev/job-name": name},
            "ownerReferences": [{"kind": "FournosJob", "name": name, "uid": owner, "controller": True}],
        },
        "spec": {
            "queueName": "fournos-queue",
            "podSets": [{"name": "launcher", "count": 1, "template": {"spec": pod or {}}}],
            "priority": priority,
            "active": True,
        },
        "status": {
            "conditions": [
                {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
            ]
        },
    }


def tasks(stage: Stage, owner: Obj, times: list[tuple[str, float, float, str]], lines: list[str]) -> None:
    """The run of a job: task, minutes since its start and end, state; the log of the second task."""
    name, uid = owner["metadata"]["name"], owner["metadata"]["uid"]

    def put(kind: Any, made: dict[str, Any]) -> Obj:
        labels = {**made["metadata"]["labels"], "fournos.dev/job-name": name}
        made["metadata"] |= {"namespace": NS, "labels": labels}
        return stage.objects.put(kind, made)

    plan = {"tasks": [{"name": one[0]} for one in times[:-1]], "finally": [{"name": times[-1][0]}]}
    run = put(PIPELINE_RUN, child("tekton.dev/v1", "PipelineRun", name, uid, status={"pipelineSpec": plan}))
    for task, start, end, state in times:
        labels = {"tekton.dev/pipelineRun": name, "tekton.dev/pipelineTask": task}
        condition = {
            "type": "Succeeded",
            "status": "True" if state == "Succeeded" else "False",
            "reason": state,
        }
        if state != "Succeeded":
            condition["message"] = '"step-run" exited with code 1'
        status = {
            "startTime": ago(minutes=start),
            "completionTime": ago(minutes=end),
            "podName": f"{name}-{task}-pod",
            "conditions": [condition],
        }
        made = child(
            "tekton.dev/v1", "TaskRun", f"{name}-{task}", run["metadata"]["uid"], labels=labels, status=status
        )
        task_run = put(TASK_RUN, made)
        ended = {"terminated": {"exitCode": int(state != "Succeeded"), "startedAt": status["startTime"]}}
        pod = child("v1", "Pod", f"{name}-{task}-pod", task_run["metadata"]["uid"], labels=labels)
        pod |= {
            "spec": {"containers": [{"name": "step-run"}]},
            "status": {"containerStatuses": [{"name": "step-run", "state": ended}]},
        }
        put(POD, pod)
        stage.objects.logs[Key(NS, f"{name}-{task}-pod")] = (
            lines if task == times[1][0] else [f"{task}: done"]
        )


ERROR: Final = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB, 1.44 GiB are free on GPU 0."
)


def _failed(stage: Stage) -> None:
    lines = [
        "guidellm benchmark --target http://granite-8b.llm-d:8000 --rate-type concurrent --rate 256",
        "Model ibm-granite/granite-3.3-8b-instruct is served on 2 x A100",
        *(
            f"concurrency 256  requests {number * 64:>5}  tokens/s {5210 + 37 * (number % 5)}"
            for number in range(1, 6)
        ),
        "Traceback (most recent call last):",
        '  File "/opt/vllm/engine/core.py", line 412, in step',
        "    outputs = self.model_executor.execute_model(scheduled)",
        '  File "/opt/vllm/worker/gpu_model_runner.py", line 1021, in execute_model',
        "    hidden_states = self.model(input_ids, positions, kv_caches)",
        ERROR,
        "The server has ended with code 1",
    ]
    made = job(
        stage, FAILED, "Failed", {"resolving": 190, "pending": 188, "running": 171, "finished": 139},
        cluster="lab-1", gpu="a100", gpus=2, owner="ann", status={
            "message": ERROR, "pipelineRun": FAILED,
            "attempts": [{"number": 1, "pipelineRun": FAILED, "startedAt": ago(minutes=171),
                          "finishedAt": ago(minutes=139), "outcome": "Failed", "cluster": "lab-1"}],
        },
    )  # fmt: skip
    times = [
        ("deploy", 171, 160, "Succeeded"),
        ("benchmark", 160, 141, "Failed"),
        ("collect", 141, 139, "Succeeded"),
    ]
    tasks(stage, made, times, lines)


# --- the nightly benchmark ------------------------------------------------------------------------


def _results(number: int) -> bytes:
    noise = random.Random(number)
    slower = 0.91 if number >= SLOWER else 1.0

    def about(mean: float, spread: float = 0.008) -> float:
        return round(mean * (1 + noise.gauss(0, spread)), 1)

    curve = [[load, about(slower * 2450 * load / (load + 24))] for load in LOADS]
    return f"""\
tests:
  - labels: {{model: llama-3.3-70b, load: heavy, image_tag: v0.{9 + (number - 1) // 8}}}
    kpis:
      - {{kpi_id: throughput, value: {about(slower * 2412)}, unit: tokens/s, higher_is_better: true}}
      - {{kpi_id: ttft_p95, value: {about(412 / slower)}, unit: ms, higher_is_better: false}}
      - {{kpi_id: itl_p95, value: {about(31.4)}, unit: ms, higher_is_better: false}}
      - {{kpi_id: throughput_by_users, values: {curve}, x_unit: users, y_unit: tokens/s,
         higher_is_better: true}}
""".encode()


async def _night(stage: Stage, number: int) -> None:
    name, days = f"nightly-70b-{number:02}", NIGHTS - number
    uid = f"00000000-0000-4000-8000-{number:012d}"
    minutes = 1440 * days + 340
    began = {"resolving": minutes, "pending": minutes - 2, "running": minutes - 11, "finished": minutes - 69}
    status: dict[str, Any] = {
        "pipelineRun": name,
        "message": "All tasks have succeeded",
        "attempts": [{"number": 1, "pipelineRun": name, "startedAt": ago(minutes=began["running"]),
                      "finishedAt": ago(minutes=began["finished"]), "outcome": "Succeeded",
                      "cluster": "east"}],
    }  # fmt: skip
    given = {"cluster": "east", "uid": uid, "labels": {"suite": "nightly"}, "status": status}
    if number == NIGHTS:
        made = job(stage, name, "Succeeded", began, **given)
        times = [("deploy", 329.0, 316.0, "Succeeded"), ("benchmark", 316.0, 274.0, "Succeeded"),
                 ("report", 274.0, 273.0, "Succeeded"), ("collect", 273.0, 271.0, "Succeeded")]  # fmt: skip
        tasks(stage, made, times, ["Benchmark of 5 loads"])
        _events(stage, made)
    else:
        made = job(stage, name, "Succeeded", began, **given)
        stage.objects.delete(FOURNOS_JOB, Key(NS, name), uid=uid)
    what = fingerprint(made["spec"], None, "h200x8")
    submitted = parse_time(ago(minutes=began["resolving"]))
    ended = parse_time(ago(minutes=began["finished"]))
    run = Run(
        identity=Identity("here", NS, uid), kind="FournosJob", name=name, namespace_uid=f"uid-{NS}",
        submitted_at=submitted, observed_at=ended, resource_version=number, phase="Succeeded",
        message="All tasks have succeeded", owner="ann", target="east", pipeline="llm-d-benchmark",
        project="llm-d", gpu_type="h200", gpu_count=4, attempts=1, queued_at=submitted + timedelta(minutes=2),
        waited_for=Cause.QUOTA.value, waited_for_text="4 x h200 are asked for, none is free in east",
        admitted_at=submitted + timedelta(minutes=11), started_at=submitted + timedelta(minutes=11),
        ended_at=ended, ending=Ending.OBSERVED, fingerprint=what.id, labels={"suite": "nightly"},
    )  # fmt: skip
    engine = {"vllm": "0.11.2" if number >= SLOWER else "0.11.0", "driver": "570.133.20", "forge": "v2026.3"}
    documents = {
        Document.OBJECT: made,
        Document.PROVENANCE: {"fingerprint": what.as_data(), "engine": engine},
    }
    await stage.store.record(Record(run, documents))
    records = read_file(_results(number), "results.yaml").tests
    assert await Results(stage.store).put(run.identity, records, ended) is not None


def _events(stage: Stage, owner: Obj) -> None:
    told = [
        (340, "Normal", "Resolved", "The hardware is 4 x h200"),
        (338, "Normal", "Queued", "Waits in fournos-queue"),
        (329, "Normal", "Admitted", "Starts on east"),
        (271, "Normal", "Succeeded", "All tasks have succeeded"),
    ]
    for minutes, kind, reason, note in told:
        event(stage, owner, minutes, kind, reason, note)


def event(stage: Stage, owner: Obj, minutes: float, kind: str, reason: str, note: str) -> None:
    about = {"kind": "FournosJob", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    body = {"type": kind, "reason": reason, "note": note, "regarding": about}
    meta = {"name": f"event-{stage.objects.version}", "namespace": NS}
    at = format_time(NOW - timedelta(minutes=minutes))
    stage.objects.put(EVENT, {"metadata": meta, "eventTime": at, **body})
