"""fournos cluster …: what is shown, what is written, and truthful answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.cli import cluster as cluster_commands
from fournos.cli.command import Root, World
from fournos.cli.find import completion
from fournos.cli.options import CommonOptions
from fournos.insight.quota import LOCAL_QUEUE
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NOW, ago, cluster_queue


def cluster(name: str = "c1", *, spec: Any = None, **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosCluster",
        "metadata": {
            "name": name,
            "namespace": "hearth",
            "uid": name,
            "resourceVersion": "7",
            "creationTimestamp": ago(minutes=5),
        },
        "spec": {"kubeconfigSecret": f"kubeconfig-{name}", **(spec or {})},
        "status": {
            "kubeconfigStatus": "Valid",
            "gpuSummary": "2x NVIDIA-L40S",
            "locked": False,
            "runningJobs": 3,
            "conditions": [
                {
                    "type": "Reachable",
                    "status": "True",
                    "reason": "Reachable",
                    "message": "Kubernetes v1.34.4",
                }
            ],
            **status,
        },
    }


HELD = {"locked": True, "lock": {"state": "Held", "owner": "ann"}, "ownerSetAt": ago(minutes=60)}


@pytest.fixture(autouse=True)
def no_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEARTH_NAMESPACE", raising=False)
    monkeypatch.delenv("FOURNOS_OWNER", raising=False)


def test_without_fournosclusters_those_of_kueue_are_listed() -> None:
    api = Api(cluster_queues=[cluster_queue()])
    result = Program(api)("cluster", "list")
    assert "No FournosClusters in namespace hearth" in result.stderr
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["NAME", "GPUS", "CLOSED"],
        ["cluster-1", "8x", "a100", "-"],
        ["cluster-2", "8x", "a100", "-"],
    ]
    assert "cluster-1" not in Program(api)("cluster", "list", "-o", "json").stdout
    assert Program(Api())("cluster", "list").stdout == ""


def test_clusters_at_a_glance() -> None:
    api = Api(cluster(), cluster("c2", spec={"owner": "ann", "drain": "Wait"}, **HELD))
    shown = Program(api)("cluster", "list").stdout.splitlines()
    assert shown[0].split() == ["NAME", "OWNER", "GPUS", "KUBECONFIG", "LOCKED", "JOBS", "AGE"]
    assert shown[1].split() == ["c1", "-", "2x", "NVIDIA-L40S", "Valid", "-", "3", "5m"]
    assert "Held" in shown[2] and "(draining)" in shown[2]


def test_one_cluster_with_its_reasons() -> None:
    result = Program(Api(cluster(spec={"owner": "ann"}, **HELD)))("cluster", "get", "c1")
    assert "Lock:" in result.stdout and "Held" in result.stdout
    assert "Reachable" in result.stdout and "Kubernetes v1.34.4" in result.stdout


def test_another_namespace() -> None:
    result = Program(Api(cluster()))("cluster", "get", "c1", "-n", "elsewhere")
    assert result.exit_code == 5 and "no cluster c1 in namespace elsewhere" in result.stderr


def test_a_lock_is_asked_for_with_the_version_that_was_read() -> None:
    api = Api(cluster())
    result = Program(api)(
        "cluster", "lock", "c1", "--owner", "ann", "--ttl", "4h", "--drain", "wait", "--no-wait"
    )
    assert result.exit_code == 0, result.stderr
    ((_, key, body),) = api.writes
    assert key == "hearth/c1"
    assert body == {
        "metadata": {"uid": "c1", "resourceVersion": "7"},
        "spec": {"owner": "ann", "ttl": "4h", "drain": "Wait"},
    }


def test_a_held_lock_is_waited_for() -> None:
    result = Program(Api(cluster(spec={"owner": "ann"}, **HELD)))("cluster", "lock", "c1", "--owner", "ann")
    assert result.exit_code == 0 and "c1: locked for ann" in result.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "name the owner"),
        (("--owner", "bob"), "c1 is locked for ann"),
        (("--owner", "ann", "--ttl", "1w"), "--ttl 4h"),
        (("--owner", "ann", "--ttl", "30m"), "has passed already"),
        (("--owner", "ann", "--drain", "slowly"), "write wait or stop"),
    ],
)
def test_what_cannot_be_locked(words: tuple[str, ...], says: str) -> None:
    api = Api(cluster(spec={"owner": "ann"}, **HELD))
    result = Program(api)("cluster", "lock", "c1", *words)
    assert result.exit_code == 2 and says in result.stderr
    assert api.writes == []


@pytest.mark.parametrize(
    ("words", "spec"),
    [
        (("unlock", "c1"), {"owner": "", "ttl": None, "drain": None}),
        (("drain", "c1", "--no-wait"), {"drain": "Wait"}),
        (("drain", "c1", "--stop", "--no-wait"), {"drain": "Stop"}),
        (("drain", "c1", "--undo"), {"drain": None}),
    ],
)
def test_what_is_written(words: tuple[str, ...], spec: dict[str, Any]) -> None:
    api = Api(cluster())
    assert Program(api)("cluster", *words).exit_code == 0
    metadata = {"uid": "c1", "resourceVersion": "7"}
    assert api.writes == [("patch", "hearth/c1", {"metadata": metadata, "spec": spec})]


def test_a_new_look_is_asked_for_by_annotation() -> None:
    api = Api(cluster())
    assert Program(api)("cluster", "discover", "c1", "--no-wait").exit_code == 0
    ((_, _, body),) = api.writes
    assert list(body["metadata"]["annotations"]) == ["fournos.dev/discover"]


def test_names_of_clusters_and_queues_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEARTH_NAMESPACE", "stove")
    api = Api()
    stored = {"metadata": {"name": "cluster-1", "namespace": "stove"}, "kind": "FournosCluster"}
    api.add(FOURNOS_CLUSTER, stored)
    api.add(LOCAL_QUEUE, {"metadata": {"name": "gpu-queue", "namespace": "bench"}})
    program = Program(api)
    root = Root(World(connect=program._connect, now=lambda: NOW), CommonOptions())
    context: Any = SimpleNamespace(find_object=lambda kind: root, params={})
    clusters = completion(FOURNOS_CLUSTER, namespace_of=lambda cli, session: cluster_commands._namespace(cli))
    assert [name for name, _ in clusters(context, "clu")] == ["cluster-1"]
    assert [name for name, _ in completion(LOCAL_QUEUE)(context, "")] == ["gpu-queue"]
