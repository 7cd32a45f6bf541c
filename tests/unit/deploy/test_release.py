"""`make release`: the parts of it that need no kubectl, and the package of the chart."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev import release
from dev.release import CHART, IMAGE
from dev.release_chart import pack
from dev.release_install import (
    LOCKS_NAMESPACE,
    SYSTEMS,
    missing_namespaces,
    namespace,
    of_all,
    of_system,
    write,
)
from devcluster import DevclusterError, manifests
from devcluster.progress import Progress

ROOT = Path(__file__).parents[3]
SOURCE = release.Source(ROOT, 1_700_000_000, "registry.test/fournos")


def deployment(name: str, image: str) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": image, "env": [{"name": "E", "value": LOCKS_NAMESPACE}]}]}
    meta = {"name": name, "namespace": LOCKS_NAMESPACE}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta,
        "spec": {"template": {"spec": pod}},
    }


# --- install.yaml -----------------------------------------------------------------------------------------


def test_images_get_the_version_as_their_tag() -> None:
    system = SYSTEMS[1]
    ours = deployment("a", "quay.io/rh_perfscale/hearth:latest")
    other = deployment("b", "docker.io/library/busybox:1.36")
    images = {
        item["spec"]["template"]["spec"]["containers"][0]["image"]
        for item in of_system(system, [ours, other], SOURCE.image)
        if item["kind"] == "Deployment"
    }
    assert images == {f"registry.test/fournos:{SOURCE.version}", "docker.io/library/busybox:1.36"}
    assert ours["spec"]["template"]["spec"]["containers"][0]["image"].endswith("hearth:latest")


def test_namespaces_are_made_first_and_webhooks_last() -> None:
    hook = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "v"},
    }
    found = of_system(SYSTEMS[1], [hook, deployment("a", "x")], SOURCE.image)
    assert [item["kind"] for item in found] == [
        "Namespace",
        "Namespace",
        "Deployment",
        "ValidatingWebhookConfiguration",
    ]
    assert missing_namespaces(found) == set()
    assert missing_namespaces([deployment("a", "x")]) == {LOCKS_NAMESPACE}


def test_all_in_one_locks_clusters_where_its_jobs_run() -> None:
    hearth = [namespace(LOCKS_NAMESPACE), deployment("hearth", "x")]
    jobs = [namespace("fournos")]
    text = write(of_all({"jobs": jobs, "hearth": hearth}), title="t")
    assert LOCKS_NAMESPACE not in text
    found = manifests.parse(text)
    assert [item["metadata"]["name"] for item in found] == ["fournos", "hearth"]


def test_what_two_systems_want_in_two_ways_is_refused() -> None:
    one = deployment("a", "x")
    labelled = {**namespace("n"), "metadata": {"name": "n", "labels": {"a": "b"}}}
    (made,) = of_all({"one": [namespace("n")], "two": [labelled]})
    assert made["metadata"]["labels"] == {"a": "b"}
    with pytest.raises(ValueError, match="two systems differ about apps Deployment fournos a"):
        of_all({"one": [one], "two": [deployment("a", "y")]})


def test_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"2")
    (tmp_path / "a").write_bytes(b"1")
    text = release.checksums(tmp_path)
    assert text == "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in (("a", b"1"), ("b", b"2"))
    )


def test_a_checkout_with_changes_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(release, "_git", lambda *words: " M src/x.py\n")
    with pytest.raises(DevclusterError, match="changes that are not committed"):
        release.release(tmp_path, "x", Progress())


# --- The chart's package in a release ----------------------------------------------------------------

MADE = 1_700_000_000


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """A copy of the chart, to be changed."""
    return Path(shutil.copytree(ROOT / CHART, tmp_path / "chart"))


def packed(chart: Path, target: Path, repository: str = IMAGE) -> Path:
    pack(chart, target, made=MADE, repository=repository)
    return target


def test_two_packages_are_the_same_bytes_whatever_the_times_and_modes_of_the_files(
    chart: Path, tmp_path: Path
) -> None:
    for path in chart.rglob("*"):
        path.chmod(0o700)
        os.utime(path, (1, 1))
    first, second = packed(ROOT / CHART, tmp_path / "a.tgz"), packed(chart, tmp_path / "b.tgz")
    assert first.read_bytes() == second.read_bytes()


def test_it_has_every_file_and_nothing_of_this_machine(tmp_path: Path) -> None:
    with tarfile.open(packed(ROOT / CHART, tmp_path / "a.tgz")) as archive:
        entries = archive.getmembers()
        contents = {entry.name: archive.extractfile(entry).read() for entry in entries}  # type: ignore[union-attr]
    sources = {
        str(path.relative_to(ROOT / CHART)): path for path in (ROOT / CHART).rglob("*") if path.is_file()
    }
    assert contents == {f"fournos/{name}": path.read_bytes() for name, path in sources.items()}
    assert {(entry.mtime, entry.mode, entry.uid, entry.gid, entry.uname) for entry in entries} == {
        (MADE, 0o644, 0, 0, "")
    }


def test_a_release_for_another_registry_has_it_in_the_values(tmp_path: Path) -> None:
    target = packed(ROOT / CHART, tmp_path / "a.tgz", "registry.test/fournos")
    with tarfile.open(target) as archive:
        values = yaml.safe_load(archive.extractfile("fournos/values.yaml"))  # type: ignore[arg-type]
    before = yaml.safe_load((ROOT / CHART / "values.yaml").read_text())
    assert values == {**before, "image": {**before["image"], "repository": "registry.test/fournos"}}
