"""What the end-to-end tests read without kubectl is what kubectl shows."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import devcluster
from devcluster import Cluster
from tests.e2e.hub import Hub, RefusedError
from tests.e2e.reader import Reader
from tests.integration.conftest import CLUSTER, Server
from tests.waiting import until


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return devcluster.ensure(CLUSTER, profile="control-plane")


@pytest.fixture
def reader(cluster: Cluster) -> Iterator[Reader]:
    with closing(Reader(cluster.kubeconfig_path)) as reader:
        yield reader


@pytest.fixture(scope="module")
def kubeconfig(cluster: Cluster) -> Path:
    return cluster.kubeconfig_path


def shown(cluster: Cluster, *words: str) -> Any:
    done = subprocess.run(
        [*cluster.kubectl_words(), "get", *words, "-o", "json"], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


async def _exists(server: Server, path: str) -> bool:
    return (await server("GET", path))[0] == 200


@pytest.mark.parametrize(
    "kind",
    [
        "configmaps",
        "configmap",
        "cm",
        "ConfigMap",
        "roles",
        "localqueues",
        "localqueues.kueue.x-k8s.io",
        "pods",
    ],
)
async def test_lists_and_objects(
    cluster: Cluster, server: Server, namespace: str, reader: Reader, kind: str
) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    await server.apply(f"{maps}/a", _named("v1", "ConfigMap", "a", labels={"x": "1"}))
    # A controller makes one in each new namespace; else it may come between the two reads.
    await until(lambda: _exists(server, f"{maps}/kube-root-ca.crt"), "the namespace has no authority")
    queue = {**_named("kueue.x-k8s.io/v1beta2", "LocalQueue", "q"), "spec": {"clusterQueue": "none"}}
    await server.apply(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/localqueues/q", queue)

    found = reader.read(namespace, kind)

    assert found is not None
    wanted = shown(cluster, "-n", namespace, kind)["items"]
    assert [_steady(one) for one in found["items"]] == [_steady(one) for one in wanted]
    for one in wanted:
        name = one["metadata"]["name"]
        assert _steady(reader.read(namespace, kind, name)) == _steady(one)
    chosen = reader.read(namespace, kind, selector="x=1")
    assert chosen is not None
    wanted = shown(cluster, "-n", namespace, kind, "-l", "x=1")["items"]
    assert [_steady(one) for one in chosen["items"]] == [_steady(one) for one in wanted]


def test_kinds_without_a_namespace(cluster: Cluster, reader: Reader) -> None:
    found = reader.read("default", "crd", "workloads.kueue.x-k8s.io")

    assert _steady(found) == _steady(shown(cluster, "crd", "workloads.kueue.x-k8s.io"))


def test_a_connection_is_kept_for_the_next_read(reader: Reader) -> None:
    for kind, name in (("configmaps", ""), ("configmap", "none"), ("namespace", "default")):
        reader.read("default", kind, name)
        (server,) = reader._idle
        before = server.sock.getsockname()
        assert reader.read("default", "namespace", "default")
        assert [one.sock.getsockname() for one in reader._idle] == [before]


def test_what_is_not_there_is_empty_and_its_error_kubectls(cluster: Cluster, reader: Reader) -> None:
    assert reader.read("default", "configmap", "none") == {}
    assert reader.read("none", "configmap", "none") == {}
    hub = Hub(cluster.kubeconfig_path, "default", kubectl_words=tuple(cluster.kubectl_words()))

    assert not hub.exists("configmap", "none")
    assert hub.exists("namespace", "default")
    with pytest.raises(RefusedError, match=r'configmaps "none" not found'):
        hub.get("configmap", "none")
    with pytest.raises(RefusedError, match='the server doesn\'t have a resource type "nones"'):
        hub.list("nones")


async def test_a_server_that_is_away_is_kubectls_answer(cluster: Cluster, tmp_path: Path) -> None:
    text = cluster.kubeconfig_path.read_text().replace(":6443", ":9")
    (tmp_path / "config").write_text(text)
    reader = Reader(tmp_path / "config")

    assert reader.read("default", "pods") is None


def _named(version: str, kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}}


def _steady(one: Any) -> Any:
    """Without what a controller may change between the two reads."""
    assert isinstance(one, dict)
    metadata = {name: value for name, value in one["metadata"].items() if name != "resourceVersion"}
    return {**{name: value for name, value in one.items() if name != "status"}, "metadata": metadata}
