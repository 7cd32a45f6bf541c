"""What builds images: Docker or Podman where one answers, else buildah; for kind's clusters never buildah."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev import appwrapper, demo, demo_jobs, image, setup
from dev.setup import Where
from devcluster import DevclusterError, imagebuild, manifests, native, state, system
from devcluster.cluster import stop
from devcluster.engine import Engine, find_engine
from devcluster.errors import NotSupportedError
from devcluster.progress import Progress
from devcluster.spec import ClusterSpec
from devcluster.state import Record
from tests.fakes import engine as fake

ROOT = Path(__file__).parents[3]
QUIET = Progress(quiet=True)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A PATH with both programs and little else; what is built goes to a directory of the test."""
    directory = fake.install(tmp_path / "bin", "docker", "podman")
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    monkeypatch.delenv("CONTAINER_TOOL", raising=False)
    monkeypatch.setattr(image, "BUILD", tmp_path / "build")
    yield directory


@pytest.mark.parametrize(
    ("down", "named", "found"),
    [
        ("", "", "docker"),
        ("docker", "", "podman"),
        ("docker podman", "", None),
        ("", "podman", "podman"),
        ("", "buildah", None),
    ],
)
def test_the_first_that_answers_is_taken(
    programs: Path, monkeypatch: pytest.MonkeyPatch, down: str, named: str, found: str | None
) -> None:
    """A docker client without a server builds nothing, and does not stop what comes after it."""
    monkeypatch.setenv("FAKE_ENGINE_DOWN", down)
    monkeypatch.setenv("CONTAINER_TOOL", named)
    assert find_engine() == (Engine(found) if found else None)


@pytest.mark.parametrize(
    ("named", "words"),
    [("docker", "`docker info` does not succeed"), ("nerdctl", "one of: docker, podman, buildah")],
)
def test_a_named_program_that_does_not_answer_is_an_error(
    programs: Path, monkeypatch: pytest.MonkeyPatch, named: str, words: str
) -> None:
    monkeypatch.setenv("FAKE_ENGINE_DOWN", "docker")
    monkeypatch.setenv("CONTAINER_TOOL", named)
    with pytest.raises(DevclusterError, match=words):
        find_engine()


@pytest.mark.parametrize("program", ["docker", "podman"])
def test_the_operators_image_is_built_once_and_saved(
    programs: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setenv("CONTAINER_TOOL", program)
    made = [appwrapper.image(QUIET) for _ in range(2)]
    assert made[0] == made[1] and made[0].archive.is_file()
    build, save = fake.calls(programs)
    file = str(ROOT / "Containerfile")
    assert build == [program, "build", "--tag", made[0].tag, "--file", file, str(ROOT)]
    assert save[:2] == [program, "save"] and save[-1] == made[0].tag


def test_buildah_makes_it_where_only_a_client_is_there(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_ENGINE_DOWN", "docker podman")
    base = programs / "base.tar"
    base.touch()
    monkeypatch.setattr(image, "python_base", lambda progress: base)
    monkeypatch.setattr(image, "_packages", lambda progress: None)
    built: list[str] = []
    monkeypatch.setattr(image, "build_image", lambda tag, **options: built.append(tag))
    tag = appwrapper.image(QUIET).tag
    assert built == [tag]
    assert fake.calls(programs) == []


def test_a_build_that_fails_names_the_way_without_a_registry(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (programs / "docker").write_text('#!/bin/sh\n[ "$1" = info ] || { echo no route to registry; exit 1; }\n')
    with pytest.raises(DevclusterError, match=r"no route to registry\n.*CONTAINER_TOOL=buildah"):
        appwrapper.image(QUIET)


def test_both_ignore_files_are_one() -> None:
    """Docker reads another name than Podman and buildah; without it .git and .venv are in the context."""
    assert (ROOT / ".dockerignore").read_text() == (ROOT / ".containerignore").read_text()


# --- the provider kind ---


KIND = """#!/bin/sh
here=$(dirname "$0")
echo "$KIND_EXPERIMENTAL_PROVIDER: $@" >> "$here/kind-calls"
case "$1 $2" in
"get clusters") cat "$here/kind-clusters" ;;
"create cluster")
  while [ "$1" != --name ]; do shift; done
  echo "$2" >> "$here/kind-clusters"
  [ ! -e "$here/kind-fails" ] || exit 1
  while [ "$1" != --kubeconfig ]; do shift; done
  echo "{}" > "$2" ;;
"delete cluster") : > "$here/kind-clusters" ;;
esac
"""


@pytest.fixture
def nothing_native(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """kind and kubectl are there; compiling, Debian packages and buildah are errors."""
    for name, text in (("kind", KIND), ("kubectl", "#!/bin/sh\necho '{\"items\": []}'\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (programs / "kind-clusters").touch()
    monkeypatch.setenv("FOURNOS_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("FOURNOS_CACHE", str(tmp_path / "cache"))

    def refuse(*arguments: Any, **options: Any) -> Any:
        pytest.fail("something native is built")

    for module, name in (
        (setup, "build"),
        (image, "build"),
        (native, "build"),
        (system, "ensure_packages"),
        (image, "build_image"),
        (imagebuild, "build_image"),
        (image, "python_base"),
    ):
        monkeypatch.setattr(module, name, refuse)
    monkeypatch.setattr("devcluster.kind.await_part", lambda *words, **options: None)
    monkeypatch.setattr(setup, "install", lambda cluster, where: None)
    return programs


def test_with_kind_nothing_native_is_built(nothing_native: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = Where(cluster="k", provider="kind")

    async def run_jobs(*arguments: Any) -> tuple[demo_jobs.Ran, list[dict[str, Any]]]:
        jobs = [{"metadata": {"name": name}, "status": {"phase": "Succeeded"}} for name in "abc"]
        return demo_jobs.Ran("a", "b", ("c",)), jobs

    monkeypatch.setattr(demo.operator, "deploy", lambda *arguments, **options: None)
    monkeypatch.setattr(demo.history, "await_rollout", lambda *arguments, **options: None)
    monkeypatch.setattr(demo_jobs, "run", run_jobs)
    monkeypatch.setattr(demo.page, "deploy", lambda *arguments: "http://127.0.0.1:1/open/token")
    assert demo.run(where, QUIET) == 0
    built = [words[3] for words in fake.calls(nothing_native) if words[1] == "build"]
    assert sorted(tag.split(":")[0] for tag in built) == [
        "docker.io/library/fournos-mock-resolve",
        "docker.io/local/fournos",
    ]
    assert asked_of_kind(nothing_native).count("docker: load image-archive") == 2


def asked_of_kind(programs: Path) -> str:
    """The command lines, each with the engine that kind was told to use."""
    calls = programs / "kind-calls"
    return calls.read_text() if calls.exists() else ""


def test_a_cluster_that_was_not_made_here_is_neither_used_nor_deleted(nothing_native: Path) -> None:
    (nothing_native / "kind-clusters").write_text("theirs\nk\n")
    for _ in range(2):
        with pytest.raises(NotSupportedError, match="kind has a cluster k already") as refused:
            setup.prepare(Where(cluster="k", provider="kind"), QUIET)
        assert "Choose another name" in refused.value.hint and "kind delete cluster" in refused.value.hint
    assert not stop("k", progress=QUIET), "there is no record of it"
    record = Record(spec=ClusterSpec(name="k", provider="kind"), shape="of a run that was killed")
    record.save()
    assert stop("k", progress=QUIET)
    assert "create" not in asked_of_kind(nothing_native) and "delete" not in asked_of_kind(nothing_native)


def test_what_kind_has_begun_goes_and_what_it_has_made_is_deleted_by_its_engine(
    nothing_native: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_ENGINE_DOWN", "docker")  # its client is there, and kind would take it
    (nothing_native / "kind-fails").touch()
    with pytest.raises(DevclusterError, match="`kind create"):
        setup.prepare(Where(cluster="k", provider="kind"), QUIET)
    assert state.names() == [] and (nothing_native / "kind-clusters").read_text() == ""
    (nothing_native / "kind-fails").unlink()
    setup.prepare(Where(cluster="k", provider="kind"), QUIET)
    monkeypatch.setenv("FAKE_ENGINE_DOWN", "")
    assert stop("k", progress=QUIET)
    engines = {line.partition(":")[0] for line in asked_of_kind(nothing_native).splitlines()}
    assert engines == {"podman"} and (nothing_native / "kind-clusters").read_text() == ""


def test_without_kubectl_no_cluster_is_made(nothing_native: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> list[str]:
        raise NotSupportedError("There is no kubectl")

    monkeypatch.setattr("devcluster.kind.kubectl_program", missing)
    with pytest.raises(NotSupportedError, match="There is no kubectl"):
        setup.prepare(Where(cluster="k", provider="kind"), QUIET)
    assert "create" not in asked_of_kind(nothing_native)


def test_a_cluster_that_fails_is_reported_while_the_image_is_still_made(
    nothing_native: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = threading.Event()
    monkeypatch.setattr(demo, "operator_image", lambda *_: made.wait(60))
    (nothing_native / "kind-fails").touch()
    with pytest.raises(DevclusterError, match="`kind create"):
        demo.run(Where(cluster="k", provider="kind"), QUIET)
    assert not made.is_set()
    made.set()


def test_kind_without_an_engine_is_refused_before_anything_is_made(
    nothing_native: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_ENGINE_DOWN", "docker podman")
    with pytest.raises(DevclusterError, match="needs Docker or Podman, and neither answers"):
        setup.prepare(Where(cluster="k", provider="kind"), QUIET)
    assert not (nothing_native / "kind-calls").exists()


def test_an_existing_cluster_needs_images_that_it_can_pull(nothing_native: Path) -> None:
    where = Where(cluster="k", provider="existing", kubeconfig=ROOT / "none")
    with pytest.raises(DevclusterError, match="--resolve-image"):
        setup.prepare(where, QUIET)
    with pytest.raises(DevclusterError, match="--image"):
        demo.run(where, QUIET)


def test_the_pulled_resolver_has_what_its_script_calls() -> None:
    """And the kubectl of the connectivity check, which is public."""
    lines = (ROOT / "dev/mock-resolve/Containerfile.public").read_text().splitlines()
    assert f"FROM {image.VALIDATION} AS kubectl" in lines
    task, pipeline = manifests.parse((ROOT / "config/fournos-validation/pipeline.yaml").read_text())
    images = {
        param["name"]: param["default"]
        for found in (task, pipeline)
        for param in found["spec"]["params"]
        if "default" in param
    }
    assert images == {"image": image.VALIDATION, "validation-image": image.VALIDATION}
