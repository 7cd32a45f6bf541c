"""fournos explain: the reason for waiting, found among many, and what to do about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fournos.engine.kube.errors import ForbiddenError, NoSuchResourceError
from fournos.engine.kube.resource import POD, Key
from fournos.engine.queueing.kinds import LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.insight.facts import in_line
from fournos.insight.quota import Quotas
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import (
    FLAVORS,
    ago,
    child,
    cluster_queue,
    job,
    local_queue,
    pod,
    run,
    task_run,
    workload,
)


def world(*objects: Any, queue: Any = None, local: Any = None, flavors: Any = None) -> Api:
    return Api(
        *objects,
        queues=[local or local_queue()],
        cluster_queues=[queue or cluster_queue()],
        flavors=FLAVORS if flavors is None else flavors,
    )


def pending(**fields: Any) -> dict[str, Any]:
    return job("one", "Pending", **{"status": {"message": "Waiting for admission: no room"}, **fields})


def holder(name: str = "two", **fields: Any) -> dict[str, Any]:
    status = {"cluster": "cluster-1", "phaseTimes": {"admitted": ago(minutes=30)}}
    return job(name, "Running", status=status, **fields)


def verdict(api: Api) -> str:
    result = Program(api)("explain", "one")
    assert result.exit_code == 0, result.stderr
    return result.stdout.splitlines()[1]


def test_an_exclusive_job_waits_for_the_cluster() -> None:
    api = world(
        pending(),
        holder(),
        workload(cluster="cluster-1"),
        workload("three", priority=100, created=ago(minutes=1)),
    )
    result = Program(api)("explain", "one")
    assert result.stdout == (
        """\
one  Pending
one wants cluster-1 for itself; 1 job on it must end first.

Why
  Waiting for admission: no room

In the queue
  Place 2 of 2, after bench/three

On these clusters
  NAME       PHASE    CLUSTER    OWNER      EXCLUSIVE  FOR
  bench/two  Running  cluster-1  perf-team  yes        30m

Quota
  FLAVOR     RESOURCE              ASKS  FREE  USED  QUOTA
  cluster-1  fournos/gpu-a100      2     6     2     8
  cluster-1  fournos/cluster-slot  100   0     100   100

Try
  wait for the holder: fournos wait two
  cluster-2 has room now: submit it with --set cluster=cluster-2
"""
    )


def test_the_same_for_programs() -> None:
    api = world(pending(), holder(namespace="other"), workload(cluster="cluster-1"))
    found = json.loads(Program(api)("explain", "one", "-o", "json").stdout)
    assert found["holders"] == ["other/two"]
    assert (found["position"], found["waiting"], found["ahead"]) == (1, 1, [])
    assert found["quota"][0] == {
        "flavor": "cluster-1",
        "resource": "fournos/gpu-a100",
        "asks": "2",
        "free": "6",
        "used": "2",
        "nominal": "8",
    }
    assert found["advice"][0] == "wait for the holder: fournos wait -n other two"


SHARED = {"exclusive": False, "cluster": None}


def ended_job(*, attempt: int) -> dict[str, Any]:
    times = {"pending": ago(hours=2), "running": ago(minutes=90), "finished": ago(hours=1)}
    return job("one", "Stopped", status={"phaseTimes": times, "cluster": "east", "attempt": attempt})


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        (
            world(
                pending(spec=SHARED), workload(asks={"fournos/gpu-a100": "16", "fournos/cluster-slot": "1"})
            ),
            "it asks for 16 of fournos/gpu-a100, and no eligible cluster has more than 8.",
        ),
        (
            world(pending(spec=SHARED), workload(asks={"fournos/gpu-b9": "1"})),
            "can never be admitted: no quota for fournos/gpu-b9 exists.",
        ),
        (
            world(pending(spec={"cluster": "cluster-9"}), workload(cluster="cluster-9")),
            "the ClusterQueue has no flavor with the label fournos.dev/cluster=cluster-9.",
        ),
        (
            world(
                pending(spec={"exclusive": False}),
                holder(),
                workload(cluster="cluster-1", asks={"fournos/cluster-slot": "1"}),
            ),
            "one waits for cluster-1, which two has locked.",
        ),
        (
            world(
                pending(spec=SHARED),
                workload(asks={"fournos/gpu-a100": "2", "fournos/cluster-slot": "1"}),
                queue=cluster_queue(
                    {"cluster-1": {"fournos/gpu-a100": (8, 7), "fournos/cluster-slot": (100, 4)}}
                ),
            ),
            "one waits for 2 x a100 on any cluster: too much is in use.",
        ),
        (
            world(pending(spec=SHARED), workload(asks={"fournos/cluster-slot": "1"})),
            "should be admitted any moment: cluster-2 has what it asks for.",
        ),
        (
            world(
                pending(spec=SHARED),
                workload(asks={"fournos/cluster-slot": "1"}),
                workload("zero", priority=9),
            ),
            "waits for its turn, behind 1 job of the queue.",
        ),
        (
            world(pending(), workload(), queue=cluster_queue(spec={"stopPolicy": "Hold"})),
            "is stopped (stopPolicy Hold)",
        ),
        (
            world(
                pending(),
                workload(),
                queue=cluster_queue(
                    conditions=[
                        {"type": "Active", "status": "False", "reason": "FlavorNotFound", "message": "x"}
                    ]
                ),
            ),
            "ClusterQueue fournos-queue is not active.",
        ),
        (world(pending(), workload(active=False)), "one was deactivated in Kueue."),
        (
            world(pending(), workload(conditions=[{"type": "QuotaReserved", "status": "True"}])),
            "has its quota, and waits for admission checks.",
        ),
        (world(pending(spec={"suspend": True})), "is held by its own spec.suspend."),
        (
            world(pending(status={"retryAt": "2030-01-01T12:00:20Z"})),
            "failed and is tried again in 20s.",
        ),
        (world(pending()), "one is not queued yet."),
        (
            Api(pending(), workload()),
            "waits for LocalQueue fournos-queue, which namespace bench does not have.",
        ),
        (
            Api(pending(), workload(), queues=[local_queue()]),
            "waits for ClusterQueue fournos-queue, which does not exist.",
        ),
        (Api(job("one", None)), "No operator has looked at one yet (10m)."),
        (Api(job("one", None, spec={"managedBy": "a/b"})), "waits for a/b, which its spec.managedBy names."),
        (Api(job("one", "Resolving")), "waits for its resolve Job to be made"),
        (
            Api(job("one", "Admitted", status={"cluster": "c1"})),
            "has its cluster, c1; its run is being prepared.",
        ),
        (
            Api(
                job(
                    "one",
                    "Admitted",
                    spec={"lockOnly": True},
                    status={"cluster": "c1", "phaseTimes": {"admitted": ago(minutes=5)}},
                )
            ),
            "has held c1 for 5m: nothing else runs there until it ends.",
        ),
        (Api(job("one", "Stopping")), "is being stopped: its run has to end before its quota is given back."),
        (
            Api(job("one", "Succeeded", status={"phaseTimes": {"finished": ago(hours=1)}})),
            "has ended: Succeeded 1h ago.",
        ),
        (Api(ended_job(attempt=1)), "has ended: Stopped on east 1h ago, after a run of 30m."),
        (Api(ended_job(attempt=2)), "has ended: Stopped on east 1h ago, after its last run of 30m."),
    ],
)
def test_verdicts(api: Api, expected: str) -> None:
    assert expected in verdict(api)


def test_without_kueue_and_without_rights() -> None:
    api = world(pending(), workload())
    api.fails["get", LOCAL_QUEUE] = NoSuchResourceError("404", status=404)
    assert verdict(api) == "one waits for Kueue, which is not installed."
    api.fails["get", LOCAL_QUEUE] = ForbiddenError("no", status=403)
    assert verdict(api) == "one waits for Kueue to admit it."
    api = world(pending(), holder(), workload(cluster="cluster-1"))
    api.fails["list", RESOURCE_FLAVOR] = ForbiddenError("no", status=403)
    assert "wants cluster-1 for itself" in verdict(api)
    api.fails["list", WORKLOAD] = ForbiddenError("no", status=403)
    assert verdict(api) == "one is not queued yet."


def test_a_resolver_that_cannot_start() -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    api = Api(
        job("one", "Resolving"),
        child("batch/v1", "Job", "one-resolve", "uid-one"),
        child(
            "v1",
            "Pod",
            "p",
            "uid-Job-one-resolve",
            status={"containerStatuses": [{"name": "r", "state": state}]},
        ),
    )
    text = Program(api)("explain", "one").stdout
    assert "its resolver cannot start." in text
    assert "pod p: ImagePullBackOff: no such image" in text
    assert "resolve-image" in text


def test_a_running_job_and_a_pod_that_finds_no_node() -> None:
    api = Api(
        job("one", "Running", status={"pipelineRun": "one", "phaseTimes": {"running": ago(minutes=2)}}),
        run(),
        task_run("prepare", startTime=ago(minutes=1)),
    )
    assert verdict(api) == "one has been running for 2m: task prepare for 1m."
    stuck = pod("prepare", "step-x", state={})
    stuck["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    ]
    api.add(POD, stuck)
    assert verdict(api) == "one has been running for 2m, but a pod of it cannot start."


def test_a_failed_job_names_the_task() -> None:
    failed = {"type": "Succeeded", "status": "False", "reason": "Failed", "message": "exit 1"}
    api = Api(
        job("one", "Failed", status={"pipelineRun": "one"}), run(), task_run("benchmark", conditions=[failed])
    )
    text = Program(api)("explain", "one").stdout
    assert "task benchmark: exit 1" in text
    assert "fournos logs one" in text


def test_the_line_is_by_priority_then_age() -> None:
    waiting = [
        workload("young", created=ago(minutes=1)),
        workload("old", created=ago(minutes=9)),
        workload("vip", priority=5, created=ago(seconds=1)),
        workload("running", conditions=[{"type": "QuotaReserved", "status": "True"}]),
        workload("held", active=False),
    ]
    elsewhere = workload("elsewhere")
    elsewhere["spec"]["queueName"] = "another"
    found = in_line([*waiting, elsewhere], [local_queue()], "fournos-queue")
    assert [place.key for place in found] == [Key("bench", name) for name in ("vip", "old", "young")]


def test_borrowing_from_a_cohort_makes_more_possible() -> None:
    asks = workload(asks={"fournos/gpu-a100": "12"})
    queue = cluster_queue({"cluster-1": {"fournos/gpu-a100": (8, 0)}})
    assert Quotas(queue, FLAVORS).of(asks).possible == []
    queue["spec"]["cohortName"] = "all"
    assert Quotas(queue, FLAVORS).of(asks).possible == ["cluster-1"]
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["borrowingLimit"] = "2"
    assert Quotas(queue, FLAVORS).of(asks).possible == []


def tainted(*names: str) -> list[dict[str, Any]]:
    taint = {"key": "fournos.dev/unavailable", "value": "draining", "effect": "NoSchedule"}
    return [
        {
            "metadata": {"name": name},
            "spec": {
                "nodeLabels": {"fournos.dev/cluster": name},
                **({"nodeTaints": [taint]} if name in names else {}),
            },
        }
        for name in ("cluster-1", "cluster-2")
    ]


def test_a_cluster_that_takes_no_jobs_is_the_reason() -> None:
    api = world(pending(), workload(cluster="cluster-1"), flavors=tainted("cluster-1"))
    result = Program(api)("explain", "one")
    assert "one waits. Cluster cluster-1 takes no jobs: it is being drained." in result.stdout
    assert "fournos cluster get cluster-1" in result.stdout
    assert "cluster-2 has room now: submit it with --set cluster=cluster-2" in result.stdout
    assert "never" not in result.stdout


def test_the_holder_of_a_cluster_without_that_hardware_is_not_waited_for() -> None:
    queue = cluster_queue(
        {
            "cluster-1": {"fournos/gpu-a100": (0, 0), "fournos/cluster-slot": (100, 100)},
            "cluster-2": {"fournos/gpu-a100": (8, 8), "fournos/cluster-slot": (100, 1)},
        }
    )
    busy = job("three", "Running", status={"cluster": "cluster-2"}, created=ago(minutes=1))
    asks = {"fournos/gpu-a100": "2", "fournos/cluster-slot": "1"}
    api = world(pending(spec=SHARED), holder(), busy, workload(asks=asks), queue=queue)
    found = json.loads(Program(api)("explain", "one", "-o", "json").stdout)
    assert found["holders"] == ["bench/three"]
    assert found["advice"][0] == "wait for the holder: fournos wait three"
    assert {line["flavor"] for line in found["quota"]} == {"cluster-2"}


def test_no_cluster_takes_jobs() -> None:
    api = world(pending(), workload(), flavors=tainted("cluster-1", "cluster-2"))
    assert verdict(api) == (
        "one waits. No cluster takes jobs: cluster-1: it is being drained; cluster-2: it is being drained."
    )
    busy = world(pending(), workload(), flavors=tainted("cluster-1"))
    assert verdict(busy) == "one should be admitted any moment: cluster-2 has what it asks for."


def test_the_readme_shows_what_is_printed() -> None:
    quota = {
        "cluster-1": {"fournos/gpu-h200": (8, 2), "fournos/cluster-slot": (100, 100)},
        "cluster-2": {"fournos/gpu-h200": (8, 0), "fournos/cluster-slot": (100, 0)},
    }
    refused = {
        "type": "QuotaReserved",
        "status": "False",
        "reason": "Pending",
        "message": "couldn't assign flavors to pod set launcher: insufficient unused quota for "
        "fournos/cluster-slot in flavor cluster-1, 100 more needed",
    }
    asks = {"fournos/cluster-slot": "100", "fournos/gpu-h200": "2"}
    api = world(
        job("nightly-x7k2m", "Pending", spec={"hardware": {"gpuType": "h200", "gpuCount": 2}}),
        workload("nightly-x7k2m", cluster="cluster-1", asks=asks, conditions=[refused]),
        holder("load"),
        queue=cluster_queue(quota),
    )
    result = Program(api)("explain", "nightly-x7k2m")
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    shown = readme.partition("$ fournos explain nightly-x7k2m\n")[2].partition("```")[0]
    lines = [line for line in shown.splitlines() if line != "[…]"]
    assert len(lines) >= 8
    assert [line for line in map(str.rstrip, result.stdout.splitlines()) if line in lines] == lines
