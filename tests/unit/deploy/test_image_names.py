"""Which image runs: a version in every manifest, what a push names, triggers; what Argo CD reads."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest
import yaml

from dev import image, publish
from devcluster import DevclusterError
from devcluster.engine import Engine
from fournos import __version__
from tests.fakes import engine as fake
from tests.unit.deploy.shipped import FOLDERS, ROOT, everything, shipped

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("part", FOLDERS)
def test_a_deployment_names_this_version(part: str) -> None:
    """`latest` with IfNotPresent is whatever a node happened to pull first."""
    container = shipped(part).container
    repository, _, tag = container["image"].rpartition(":")
    assert repository in publish.REPOSITORIES
    assert (tag, container["imagePullPolicy"]) == (__version__, "IfNotPresent")


def test_the_version_is_one() -> None:
    assert PROJECT["version"] == __version__
    tags = [
        image["newTag"]
        for path in (ROOT / "deploy").rglob("kustomization.yaml")
        for image in yaml.safe_load(path.read_text()).get("images", ())
    ]
    assert set(tags) == {__version__} and len(tags) >= 4


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ("refs/heads/main", ("main-0123456789ab", "latest")),
        ("refs/heads/my-branch", ("my-branch",)),
        ("refs/heads/fix/a b", ("fix-a-b",)),
        (f"refs/tags/v{__version__}", (__version__,)),
    ],
)
def test_a_git_ref_gives_the_tags(ref: str, expected: tuple[str, ...]) -> None:
    assert publish.tags(ref, COMMIT, __version__) == expected


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        ("refs/tags/v99.0.0", "v99.0.0 is not the version of this checkout"),
        ("refs/pull/7/merge", "No image is pushed for the git ref"),
        ("", "No image is pushed for the git ref"),
        ("refs/heads/latest", "would take the tag latest"),
        (f"refs/heads/{__version__}", "main's or a version's"),
        ("refs/heads/main-2", "main's or a version's"),
    ],
)
def test_no_branch_takes_a_tag_that_others_rely_on(ref: str, words: str) -> None:
    with pytest.raises(DevclusterError, match=words):
        publish.tags(ref, COMMIT, __version__)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a docker that takes every push, for a checkout of main."""
    folder = fake.install(tmp_path / "bin", "docker")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("CONTAINER_TOOL", "docker")
    monkeypatch.setenv("GIT_REF", "refs/heads/main")
    monkeypatch.setenv("GIT_COMMIT", COMMIT)
    monkeypatch.delenv("GITHUB_OUTPUT", raising=False)
    monkeypatch.setattr(image, "BUILD", tmp_path / "build")
    return folder


def test_a_push_has_both_repositories(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert publish.main() == 0
    pushed = [words[2] for words in fake.calls(programs) if words[1] == "push"]
    assert pushed == [
        f"{repository}:{tag}"
        for repository in publish.REPOSITORIES
        for tag in ("main-0123456789ab", "latest")
    ]
    assert capsys.readouterr().out.splitlines()[-4:] == pushed


def test_a_workflow_gets_the_digest_to_sign(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "output"
    output.write_text("earlier=1\n")
    monkeypatch.setenv("GITHUB_OUTPUT", str(output))
    assert publish.main() == 0
    assert output.read_text() == f"earlier=1\ndigest={fake.DIGEST}\n"


def test_an_image_that_is_not_the_same_everywhere_is_not_signed(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    monkeypatch.setattr(Engine, "digest", lambda _, name: f"sha256:{len(name)}")
    assert publish.main() == 1
    assert "The registries have different images: sha256:" in capsys.readouterr().err
    assert not (tmp_path / "output").exists()


def test_openshift_rolls_hearth_out() -> None:
    """What is pushed from main is what the ImageStream looks at, and the trigger writes the container."""
    (stream,) = (found for _, found in everything("ImageStream") if found["metadata"]["name"] == "hearth")
    (tag,) = stream["spec"]["tags"]
    pushed = publish.tags("refs/heads/main", COMMIT, __version__)
    assert tag["from"] == {"kind": "DockerImage", "name": f"quay.io/rh_perfscale/hearth:{pushed[1]}"}
    assert tag["importPolicy"] == {"scheduled": True}
    hearth = shipped("clusters")
    (trigger,) = json.loads(hearth.deployment["metadata"]["annotations"]["image.openshift.io/triggers"])
    meta = stream["metadata"]
    assert trigger["from"] == {
        "kind": "ImageStreamTag",
        "name": f"{meta['name']}:{tag['name']}",
        "namespace": meta["namespace"],
    }
    name = hearth.container["name"]
    assert trigger["fieldPath"] == f'spec.template.spec.containers[?(@.name=="{name}")].image'


def test_argo_reads_this_repository_and_leaves_the_image_to_the_trigger() -> None:
    source = HEARTH["spec"]["source"]
    assert source["repoURL"] == PROJECT["urls"]["Repository"] + ".git"
    names = source["directory"]["include"].strip("{}").split(",")
    assert {"deployment.yaml", "clusterrole.yaml", "imagestream.yaml"} == set(names)
    assert all((ROOT / source["path"] / name).is_file() for name in names)
    assert "RespectIgnoreDifferences=true" in HEARTH["spec"]["syncPolicy"]["syncOptions"]


# --- argocd: the Application of all systems but Hearth, and what Argo CD leaves as the operators wrote it -

APPLICATION = yaml.safe_load((ROOT / "argocd" / "app-fournos.yaml").read_text())
HEARTH = yaml.safe_load((ROOT / "argocd" / "app-hearth.yaml").read_text())


def test_it_is_hearths_application_with_another_source() -> None:
    source, hearth = APPLICATION["spec"]["source"], HEARTH["spec"]["source"]
    assert source == {
        "repoURL": PROJECT["urls"]["Repository"] + ".git",
        "targetRevision": hearth["targetRevision"],
        "path": "argocd/fournos",
    }
    assert APPLICATION["metadata"] == {**HEARTH["metadata"], "name": "fournos"}
    for name in ("project", "syncPolicy"):
        assert APPLICATION["spec"][name] == HEARTH["spec"][name]


def test_the_charts_is_the_same_with_another_source() -> None:
    chart = yaml.safe_load((ROOT / "argocd" / "app-chart.yaml").read_text())
    source = {**APPLICATION["spec"]["source"], "path": "charts/fournos"}
    source["helm"] = chart["spec"]["source"]["helm"]
    policy = dict(APPLICATION["spec"]["syncPolicy"])
    policy["syncOptions"] = ["CreateNamespace=true", *policy["syncOptions"]]
    assert chart == {**APPLICATION, "spec": {**APPLICATION["spec"], "source": source, "syncPolicy": policy}}
