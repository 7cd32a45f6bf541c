"""The commands of the AppWrapper README: what they write, and that each of them is there."""

from __future__ import annotations

import io
import json
import os
import re
import stat
import tarfile
from pathlib import Path

import pytest
import yaml

from dev import appwrapper, image
from devcluster import DevclusterError, manifests, upstream
from devcluster import kubectl as kubectl_module
from devcluster.versions import chosen

ROOT = Path(__file__).parents[3]
OWN = {
    "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1:6443"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
}
OTHER = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "other", "cluster": {"server": "https://192.0.2.9"}}],
    "users": [],
    "contexts": [{"name": "other", "context": {"cluster": "other"}}],
    "current-context": "other",
}


def test_a_cluster_becomes_the_current_context_beside_what_is_there(tmp_path: Path) -> None:
    target = tmp_path / "kube" / "config"
    appwrapper.merge(target, OWN, "devcluster-x")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    target.write_text(yaml.safe_dump(OTHER))
    for _ in range(2):  # a second time changes nothing
        appwrapper.merge(target, OWN, "devcluster-x")
        found = yaml.safe_load(target.read_text())
        assert found["current-context"] == "devcluster-x"
        assert [one["name"] for one in found["clusters"]] == ["other", "devcluster-x"]
        assert [one["name"] for one in found["contexts"]] == ["other", "devcluster-x"]
    assert found["users"] == [{"name": "devcluster-x", "user": {"token": "t"}}]
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize(
    ("variable", "expected"), [("", ".kube/config"), ("/a/b", "/a/b"), (f"/a{os.pathsep}/b", "/a")]
)
def test_the_kubeconfig_is_that_which_kubectl_writes(variable: str, expected: str) -> None:
    assert appwrapper.current_kubeconfig({"KUBECONFIG": variable}) == Path.home() / expected


def test_the_deployed_image_is_the_one_that_is_replaced() -> None:
    assert len(appwrapper.IMAGE.findall((ROOT / "deploy/appwrapper/deployment.yaml").read_text())) == 1
    sample = yaml.safe_load((ROOT / "samples" / "appwrapper.yaml").read_text())
    (container,) = sample["spec"]["components"][0]["template"]["spec"]["containers"]
    assert container["image"] == image.SAMPLE


def test_an_archive_gets_another_name(tmp_path: Path) -> None:
    source, target = tmp_path / "a.tar", tmp_path / "b.tar"
    manifest = json.dumps([{"Config": "c.json", "RepoTags": ["old:1"], "Layers": ["l.tar"]}]).encode()
    with tarfile.open(source, "w") as archive:
        for name, content in (("l.tar", b"layer"), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    image.retag(source, ("quay.io/a/much/longer/name:2", "b:1"), target)
    with tarfile.open(target) as archive:
        content = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]
    assert content["l.tar"] == b"layer"
    assert json.loads(content["manifest.json"])[0]["RepoTags"] == ["quay.io/a/much/longer/name:2", "b:1"]


def test_every_command_is_reached_by_make_or_by_a_script() -> None:
    makefile = (ROOT / "Makefile").read_text()
    called = set(re.findall(r"dev\.appwrapper ([a-z-]+)", makefile))
    for script in ("create-test-cluster", "deploy-kueue", "run-tests-on-cluster"):
        path = ROOT / "hack" / f"{script}.sh"
        assert path.stat().st_mode & stat.S_IXUSR
        called |= set(re.findall(r"dev\.appwrapper ([a-z-]+)", path.read_text()))
    assert called == set(appwrapper.COMMANDS)


def test_the_queue_of_the_sample_has_four_cpus() -> None:
    flavor, cluster_queue, local_queue = manifests.parse((ROOT / "samples" / "queues.yaml").read_text())
    sample = yaml.safe_load((ROOT / "samples" / "appwrapper.yaml").read_text())
    assert sample["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == local_queue["metadata"]["name"]
    assert local_queue["spec"]["clusterQueue"] == cluster_queue["metadata"]["name"]
    (group,) = cluster_queue["spec"]["resourceGroups"]
    (given,) = group["flavors"]
    assert given["name"] == flavor["metadata"]["name"]
    assert {"name": "cpu", "nominalQuota": 4} in given["resources"]


@pytest.mark.parametrize(("after", "seen"), [(0, True), (7, True), (10**6, False)])
def test_a_deployment_is_done_when_kueue_sees_appwrappers(
    monkeypatch: pytest.MonkeyPatch, after: int, seen: bool
) -> None:
    """If it never does, the message has the remedy; the probe is deleted either way."""
    messages: list[str] = []
    waited: list[float] = []

    def kubectl(*arguments: str, stdin: str | None = None, show: bool = True) -> str:
        messages.append(" ".join(arguments))
        if "api-versions" in arguments:
            return "kueue.x-k8s.io/v1beta2\n"
        return "workload/probe\n" if "get" in arguments and len(waited) >= after else ""

    monkeypatch.setattr(appwrapper, "kubectl", kubectl)
    if seen:
        appwrapper.await_kueue(wait=waited.append)
        assert len(waited) == after
    else:
        with pytest.raises(DevclusterError, match=r"workload\.codeflare\.dev/appwrapper under integrations"):
            appwrapper.await_kueue(wait=waited.append)
        assert len(waited) == appwrapper.KUEUE_PATIENCE
    assert messages[1].startswith("apply") and "delete appwrapper deployment-probe" in messages[-1]


def test_without_kueue_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appwrapper, "kubectl", lambda *arguments, **options: "v1\n")
    appwrapper.await_kueue(wait=lambda seconds: pytest.fail("waits"))


@pytest.mark.parametrize(
    ("served", "named", "applied"),
    [
        (True, "", []),
        (False, "", [upstream.release("kueue", chosen())]),
        (False, "/a/manifests.yaml", ["/a/manifests.yaml"]),
    ],
)
def test_kueue_is_installed_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, served: bool, named: str, applied: list[str]
) -> None:
    """By its API, in whatever namespace it runs; the queues come when its webhook answers."""
    messages: list[str] = []

    def kubectl(*arguments: str, stdin: str | None = None, show: bool = True) -> str:
        messages.append(arguments[-1])
        if messages.count("samples/queues.yaml") == 1 and messages[-1] == "samples/queues.yaml":
            raise DevclusterError("failed calling webhook")
        return "kueue.x-k8s.io/v1beta2\n" if served and "api-versions" in arguments else "v1\n"

    monkeypatch.setattr(appwrapper, "kubectl", kubectl)
    monkeypatch.setattr(kubectl_module.time, "sleep", lambda seconds: None)
    monkeypatch.setenv("KUEUE_MANIFESTS", named)
    appwrapper.deploy_kueue()
    assert messages == ["api-versions", *applied, "samples/queues.yaml", "samples/queues.yaml"]


def test_a_kueue_that_cannot_be_installed_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def kubectl(*arguments: str, stdin: str | None = None, show: bool = True) -> str:
        if "apply" in arguments:
            raise DevclusterError("no such host")
        return "v1\n"

    monkeypatch.setattr(appwrapper, "kubectl", kubectl)
    monkeypatch.delenv("KUEUE_MANIFESTS", raising=False)
    with pytest.raises(DevclusterError, match=r"(?s)no such host.*KUEUE_MANIFESTS=.*create-test-cluster"):
        appwrapper.deploy_kueue()
