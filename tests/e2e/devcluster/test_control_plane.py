"""The control-plane profile: Kueue as a process, its webhooks by URL, Tekton's kinds, no node."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import Cluster, down, up
from devcluster.errors import ComponentFailedError, DevclusterError
from devcluster.kubectl import Kubectl, wait_until
from devcluster.progress import Progress
from tests.waiting import LIMIT

pytestmark = pytest.mark.timeout(600)

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: plain}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: all}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: plain, resources: [{name: cpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: all, namespace: default}
spec: {clusterQueue: all}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: queued, namespace: default, labels: {kueue.x-k8s.io/queue-name: all}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: none, resources: {requests: {cpu: 1}}}]
"""


@pytest.fixture(scope="module")
def plane(own_state: Path, quiet: Progress) -> Iterator[Cluster]:
    yield up("e2e-plane", profile="control-plane", controllers="*,-job-controller", progress=quiet)
    assert down("e2e-plane", progress=quiet)


@pytest.fixture(scope="module")
def client(plane: Cluster) -> Kubectl:
    return Kubectl(plane.kubectl_words(), plane.kubeconfig_path)


def test_kueue_admits_through_its_webhooks(client: Kubectl) -> None:
    client.run("create", "-f", "-", stdin=QUEUES)
    client.run("create", "-f", "-", stdin=JOB)
    wait_until(
        "the Job admitted",
        lambda: client.json("-n", "default", "get", "job", "queued")["spec"]["suspend"] is False,
        limit=LIMIT,
    )
    bad = QUEUES.replace("name: all}\nspec:\n", "name: bad}\nspec:\n  cohortName: Not_A_Name\n", 1)
    refused = client.run("create", "--dry-run=server", "-f", "-", stdin=bad, check=False)
    assert refused.returncode != 0


def test_old_versions_of_kueues_kinds_are_converted(client: Kubectl) -> None:
    assert client.run("get", "clusterqueues.v1beta1.kueue.x-k8s.io").returncode == 0


def test_tektons_kinds_are_there_and_nothing_runs_them(client: Kubectl) -> None:
    assert client.json("get", "pipelineruns.tekton.dev", "-A")["items"] == []
    assert client.json("get", "nodes")["items"] == []


def test_switched_off_controllers_do_nothing(client: Kubectl) -> None:
    # The namespace controller proves that the manager works; the Job from above has no pod even then.
    client.run("create", "namespace", "probe")
    client.run("delete", "namespace", "probe", "--timeout=180s")
    assert client.json("-n", "default", "get", "pods")["items"] == []


def test_a_webhook_server_on_the_machine_is_in_reach(plane: Cluster) -> None:
    ping = ["ip", "-json", "route", "get", plane.node_ip]
    assert plane.host_ip in subprocess.check_output(ping, text=True)


def test_a_component_can_be_killed_and_started_again(plane: Cluster, client: Kubectl) -> None:
    plane.stop_component("kube-apiserver")
    assert not client.answers("/readyz")
    assert {row.component: row.state for row in plane.status()}["kube-apiserver"] == "failed"
    with pytest.raises(DevclusterError, match="does not run"):
        plane.pid("kube-apiserver")
    plane.start_component("kube-apiserver")
    wait_until("the API server ready again", lambda: client.answers("/readyz"), limit=LIMIT)
    assert client.json("get", "namespace", "default")["metadata"]["name"] == "default"


def test_a_proxy_of_the_environment_does_not_stand_before_a_cluster(
    plane: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    client = Kubectl(plane.kubectl_words(), plane.kubeconfig_path)
    assert client.run("get", "--raw", "/readyz").stdout == "ok"


def test_images_have_no_place_here(plane: Cluster, tmp_path: Path) -> None:
    with pytest.raises(DevclusterError, match="has no node"):
        plane.load(tmp_path / "a.tar")


def test_a_failed_start_names_the_component_and_shows_its_log(quiet: Progress) -> None:
    try:
        with pytest.raises(ComponentFailedError) as caught:
            up(
                "e2e-wrong",
                profile="control-plane",
                without={"tekton", "kueue"},
                controllers="no-such-controller",
                progress=quiet,
            )
        assert caught.value.component == "kube-controller-manager"
        assert "no-such-controller" in str(caught.value)
        assert "not within" not in str(caught.value), "its end is noticed, not the limit's"
        assert "kube-controller-manager.log" in str(caught.value)
    finally:
        down("e2e-wrong", progress=quiet)


def test_kueues_configuration_is_merged_and_a_wrong_field_is_shown(quiet: Progress) -> None:
    try:
        with pytest.raises(ComponentFailedError) as caught:
            up(
                "e2e-kueue",
                profile="control-plane",
                without={"tekton"},
                kueue_config={"noSuchField": 1},
                progress=quiet,
            )
        assert caught.value.component == "kueue"
        assert "noSuchField" in str(caught.value)
    finally:
        down("e2e-kueue", progress=quiet)
