"""`make release`: the parts of it that need neither kubectl nor a builder of images."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dev import release, release_images
from dev.engine import Engine
from dev.release_images import BASES, PUBLIC_BASE, AbsentError, recipe
from dev.release_install import (
    LOCKS_NAMESPACE,
    SYSTEMS,
    missing_namespaces,
    namespace,
    of_all,
    of_system,
    write,
)
from dev.release_sbom import pins, sbom
from devcluster import DevclusterError, manifests
from devcluster.errors import CommandFailedError
from devcluster.progress import Progress

ROOT = Path(__file__).parents[3]
LOCK = """\
aiohttp==3.1 \\
    --hash=sha256:00
    # via fournos (pyproject.toml)
attrs[tests]==2.0 ; python_version >= '3.11' \\
    --hash=sha256:01
    # via
    #   -c requirements.lock
    #   aiohttp
    #   fournos (pyproject.toml)
"""
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


# --- the bill of materials ------------------------------------------------------------------------------


def test_a_lock_is_read_with_who_needs_what() -> None:
    assert [(pin.name, pin.version, pin.via) for pin in pins(LOCK)] == [
        ("aiohttp", "3.1", ("fournos",)),
        ("attrs", "2.0", ("aiohttp", "fournos")),
    ]


def test_the_bill_has_every_package_of_the_image_and_is_the_same_each_time() -> None:
    lock = (ROOT / "requirements-runtime.lock").read_text()
    made = [
        sbom(lock, name="fournos", version="1", made=SOURCE.made, licences={"aiohttp": "Apache-2.0 AND MIT"})
        for _ in range(2)
    ]
    assert made[0] == made[1]
    found = json.loads(made[0])
    assert (found["bomFormat"], found["metadata"]["timestamp"]) == ("CycloneDX", "2023-11-14T22:13:20+00:00")
    listed = {f"{one['name']}=={one['version']}" for one in found["components"]}
    locked = {
        re.sub(r"\[.*?\]| .*", "", line)
        for line in lock.splitlines()
        if "==" in line and not line.startswith((" ", "#"))
    }
    assert listed == locked and len(listed) > 20
    needs = {one["ref"]: one.get("dependsOn", []) for one in found["dependencies"]}
    assert any("pkg:pypi/aiohttp@" in ref for ref in needs["pkg:pypi/fournos@1"])
    # Everything is reached from the product: a package that nothing needs is a fault of the reader.
    reached, ahead = set[str](), ["pkg:pypi/fournos@1"]
    while ahead:
        ref = ahead.pop()
        if ref not in reached:
            reached.add(ref)
            ahead += needs[ref]
    assert reached == set(needs)


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


# --- images, notes, checksums -----------------------------------------------------------------------------


def test_an_image_that_cannot_be_made_is_named_with_the_reason_and_the_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise CommandFailedError("`podman build` returned 125", evidence="a\nno route to the registry\n")

    monkeypatch.setattr(Engine, "build", fails)
    monkeypatch.setattr(release_images, "find_engine", lambda: Engine("podman"))
    absent = release.images(SOURCE, tmp_path, ["public-base"], Progress())
    assert not list(tmp_path.iterdir())
    text = release.notes(SOURCE, absent, None)
    assert f"NOT IN THIS RELEASE: fournos-{SOURCE.version}-image-public-base.tar.gz" in text
    assert "here: no route to the registry" in text and "build-image-public-base.sh" in text
    assert f"fournos-{SOURCE.version}-image-debian.tar.gz" in text  # was not asked for
    monkeypatch.setattr(release_images, "find_engine", lambda: None)
    with pytest.raises(AbsentError, match="neither Docker nor Podman answers here"):
        BASES["public-base"].make(tmp_path, "t:1", tmp_path / "x", Progress())


def test_the_recipe_is_a_shell_script_for_the_base_of_the_containerfile(tmp_path: Path) -> None:
    assert f"ARG BASE={PUBLIC_BASE}\n" in (ROOT / "Containerfile").read_text()
    assert re.search(r"@sha256:[0-9a-f]{64}$", PUBLIC_BASE), "a tag may mean another image tomorrow"
    script = tmp_path / "x.sh"
    script.write_text(recipe("1", "registry.test/fournos:1"))
    checked = subprocess.run(["sh", "-n", script], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    program = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert program is not None
    assert subprocess.run([program, script], check=False).returncode == 0


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
        release.release(tmp_path, "x", [], None, Progress())


def test_an_unknown_base_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        release.main(["--images", "scratch"])
    assert "known are debian, public-base, none" in capsys.readouterr().err
