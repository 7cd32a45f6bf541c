"""Builds each program of a cluster from its Go module, and keeps the manifests that the modules contain."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from devcluster.locks import file_lock
from devcluster.paths import GO_SOURCES
from devcluster.progress import Progress
from devcluster.shell import run, stream
from devcluster.system import ensure_go
from devcluster.versions import Versions

_TEKTON = "github.com/tektoncd/pipeline"
_KUEUE = "sigs.k8s.io/kueue"
_BUILD_LIMIT = 3600.0


@dataclass(frozen=True)
class Program:
    """A program: its file name, Go package, description, and usual duration of the first build."""

    file: str
    package: str
    what: str
    usual: str


PROGRAMS = (
    Program(
        "hyper", "./hyper", "Kubernetes (API server to kubectl, one binary) and etcd", "6 min, warm 10 s"
    ),
    Program("kueue", f"{_KUEUE}/cmd/kueue", "Kueue", "90 s, warm 5 s"),
    Program("tekton-controller", f"{_TEKTON}/cmd/controller", "Tekton's controller", "60 s, warm 5 s"),
    Program("tekton-webhook", f"{_TEKTON}/cmd/webhook", "Tekton's webhook", "15 s, warm 5 s"),
    Program("tekton-entrypoint", f"{_TEKTON}/cmd/entrypoint", "Tekton's entrypoint", "10 s"),
    Program("tekton-nop", f"{_TEKTON}/cmd/nop", "Tekton's nop", "2 s"),
    Program("tekton-workingdirinit", f"{_TEKTON}/cmd/workingdirinit", "Tekton's workingdirinit", "2 s"),
    Program(
        "tekton-sidecarlogresults", f"{_TEKTON}/cmd/sidecarlogresults", "Tekton's sidecarlogresults", "5 s"
    ),
    Program("coredns", "./dns", "CoreDNS", "60 s, warm 3 s"),
)


@dataclass(frozen=True)
class Built:
    """The directories of the programs and manifests of a set of versions."""

    versions: Versions

    @property
    def root(self) -> Path:
        return self.versions.cache()

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def kubectl(self) -> list[str]:
        """The command that runs kubectl."""
        return [str(self.bin / "hyper"), "kubectl"]

    @property
    def tekton_config(self) -> Path:
        return self.root / "manifests" / "tekton"

    @property
    def kueue_manifests(self) -> Path:
        return self.root / "manifests" / "kueue.yaml"

    @property
    def complete(self) -> bool:
        programs = all((self.bin / program.file).is_file() for program in PROGRAMS)
        return programs and self.tekton_config.is_dir() and self.kueue_manifests.is_file()


def ensure_built(progress: Progress, versions: Versions) -> Built:
    """Builds the missing programs of these versions. With a complete cache it needs no Go toolchain."""
    built = Built(versions)
    if built.complete:
        return built
    built.bin.mkdir(parents=True, exist_ok=True)
    with file_lock(
        built.root / ".build.lock", limit=_BUILD_LIMIT, what="the build of the cluster's programs"
    ):
        if built.complete:  # another process built it while this one waited for the lock
            return built
        go = ensure_go(progress, versions.go)
        _download(go, versions, progress)
        for program in PROGRAMS:
            if not (built.bin / program.file).is_file():
                _build(go, program, built, progress)
        _keep_manifests(go, built)
    return built


def _environment(go: Path, versions: Versions) -> dict[str, str]:
    # The user's GOFLAGS must not change what is pinned. GOTOOLCHAIN=local prevents the download of a second
    # toolchain.
    return {
        "CGO_ENABLED": "0",
        "GOFLAGS": f"-mod=readonly -modfile={versions.module_file}",
        "GOTOOLCHAIN": "local",
        "PATH": f"{go.parent}:{os.environ.get('PATH', '')}",
    }


def _download(go: Path, versions: Versions, progress: Progress) -> None:
    with progress.step("Fetching Go modules", usual="60 s, 0 s when cached") as step:

        def count(line: str) -> None:
            step.detail = line[-70:]

        packages = [program.package for program in PROGRAMS]
        stream(
            [go, "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", *packages],
            on_line=count,
            limit=1800,
            cwd=GO_SOURCES,
            env=_environment(go, versions),
        )


def _build(go: Path, program: Program, built: Built, progress: Progress) -> None:
    version = "k8s.io/component-base/version"
    kubernetes = built.versions.kubernetes
    major, minor = kubernetes.lstrip("v").split(".")[:2]
    # Without gitVersion the server reports v0.0.0, and clients refuse features.
    flags = f"-s -w -X {version}.gitVersion={kubernetes} -X {version}.gitMajor={major}"
    flags += f" -X {version}.gitMinor={minor} -X {version}.gitTreeState=clean"
    temporary = built.bin / f".{program.file}.new"
    with progress.step(f"Building {program.what}", usual=program.usual) as step:
        compiled = 0

        def count(_line: str) -> None:
            nonlocal compiled
            compiled += 1
            step.detail = f"{compiled} packages compiled"

        stream(
            [go, "build", "-v", "-ldflags", flags, "-o", temporary, program.package],
            on_line=count,
            limit=_BUILD_LIMIT,
            cwd=GO_SOURCES,
            env=_environment(go, built.versions),
        )
        temporary.replace(built.bin / program.file)


def _keep_manifests(go: Path, built: Built) -> None:
    """Copies Tekton's manifests and renders Kueue's: a warm cache then needs neither Go nor its modules."""

    def module(name: str) -> Path:
        environment = _environment(go, built.versions)
        listed = run([go, "list", "-m", "-f", "{{.Dir}}", name], limit=120, cwd=GO_SOURCES, env=environment)
        return Path(listed.stdout.strip())

    built.tekton_config.parent.mkdir(parents=True, exist_ok=True)
    unfinished = built.root / "manifests" / ".tekton.new"
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(module(_TEKTON) / "config", unfinished, copy_function=shutil.copyfile)
    for directory in [unfinished, *(p for p in unfinished.rglob("*") if p.is_dir())]:
        directory.chmod(0o755)  # the module cache is read-only; its copy must be removable
    shutil.rmtree(built.tekton_config, ignore_errors=True)
    unfinished.replace(built.tekton_config)
    rendered = run([*built.kubectl, "kustomize", module(_KUEUE) / "config" / "default"], limit=120).stdout
    temporary = built.root / "manifests" / ".kueue.new"
    temporary.write_text(rendered)
    temporary.replace(built.kueue_manifests)
