"""The published operators that a user may have a checkout of, and how each is run beside this one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from bench import appwrappers, lifecycle, miniclusters
from bench.executors import Executors, Onlooker
from bench.operator import free_port
from bench.rig import NAMESPACE, SECRETS_NAMESPACE, Rig
from dev import resources
from devcluster import DevclusterError, pki
from fournos.engine.kube.client import Client

_RESOLVE: Final = "dev/mock-resolve/resolve_job.yaml"
_CONFIG_MAP: Final = "appwrapper-operator-config"
_CERTIFICATES: Final = "k8s-webhook-server/serving-certs"


@dataclass(frozen=True, slots=True)
class Process:
    """How a published operator is started, and the address that answers with 200 when it is ready."""

    words: Sequence[str]
    ready: str
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checkout:
    """A checkout of a published operator, with what runs it."""

    path: Path
    program: Path
    """The interpreter with its packages, or the program that was built from it."""
    version: str


@dataclass(frozen=True, slots=True)
class PublishedOperator:
    """One published operator; paths are relative to its checkout, `our_crd` to this repository."""

    main: str
    crd: str
    our_crd: str
    part: str
    """What `fournos run --enable` calls the same operator here."""
    subject: lifecycle.Subject
    onlooker: Callable[[Client], Onlooker]
    prepare: Callable[[Path, Path | None, Path], Checkout]
    """Takes the checkout, the interpreter and a directory for what is built."""
    process: Callable[[Checkout, Rig], Process]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the operator here, so that both do the same."""

    def checked(self, path: Path) -> Path:
        """Returns the whole path.  Raises DevclusterError if it is no checkout of this operator."""
        for name in (self.crd, self.main):
            if not (path / name).is_file():
                raise DevclusterError(f"{path} is no checkout of the published operator: it has no {name}")
        return path.resolve()


# --- on Python -----------------------------------------------------------------------------------------


def _interpreted(path: Path, python: Path | None, _directory: Path) -> Checkout:
    python = (python or path / ".venv/bin/python").absolute()
    code = (
        "import tomllib, importlib.metadata as m;"
        "project = tomllib.load(open('pyproject.toml', 'rb'))['project'];"
        "print(project['version'], 'on kopf', m.version('kopf'))"
    )
    version = _said(
        [str(python), "-c", code],
        path,
        failed=f"{python} cannot run the published operator",
        hint="Make an environment with its packages, and name it by --python: "
        f"python -m venv DIR, DIR/bin/pip install {path}",
    )
    return Checkout(path, python, version)


def _fournos(checkout: Checkout, _found: Rig) -> Process:
    live = f"http://127.0.0.1:{free_port()}/healthz"
    environment = {
        "FOURNOS_WORKLOAD_NAMESPACE": NAMESPACE,
        "FOURNOS_SECRETS_NAMESPACE": SECRETS_NAMESPACE,
        "FOURNOS_RESOLVE_JOB_TEMPLATE": str(checkout.path / _RESOLVE),
    }
    return Process([str(checkout.program), "-m", "fournos", f"--liveness={live}"], live, environment)


# --- on Go ---------------------------------------------------------------------------------------------


def _built(package: str) -> Callable[[Path, Path | None, Path], Checkout]:
    """Returns a function that builds the package of a checkout; what Go has built before is quick."""

    def build(path: Path, _python: Path | None, directory: Path) -> Checkout:
        program = (directory / path.name).absolute()
        print(f"Building {path} (minutes, the first time)", flush=True)
        words = ["go", "build", "-o", str(program), package]
        _said(words, path, failed=f"{path} cannot be built", hint="Its go.mod names the version of Go.")
        described = ["git", "describe", "--tags", "--always"]
        version = _said(described, path, failed=f"{path} has no version", hint="Clone it with git.")
        return Checkout(path, program, version)

    return build


def _appwrapper(checkout: Checkout, rig: Rig) -> Process:
    """Without its webhooks, which this one does not run here, either.

    It serves them all the same, without being asked, and ends without a certificate below its TMPDIR.
    """
    port = free_port()
    temporary = checkout.program.parent
    pki.authority("bench").write(temporary / _CERTIFICATES, "tls")
    config = {
        "webhooksEnabled": False,
        "controllerManager": {
            "health": {"bindAddress": f"127.0.0.1:{port}"},
            "metrics": {"bindAddress": "0"},
        },
    }
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _CONFIG_MAP, "namespace": NAMESPACE},
        "data": {"config.yaml": yaml.safe_dump(config)},
    }
    resources.apply(rig.cluster, [content])
    ready = f"http://127.0.0.1:{port}/readyz"
    return Process([str(checkout.program)], ready, {"NAMESPACE": NAMESPACE, "TMPDIR": str(temporary)})


def _minicluster(checkout: Checkout, _found: Rig) -> Process:
    address = f"127.0.0.1:{free_port()}"
    words = [str(checkout.program), "--metrics-bind-address=0", f"--health-probe-bind-address={address}"]
    return Process(words, f"http://{address}/readyz")


def _said(words: Sequence[str], path: Path, *, failed: str, hint: str) -> str:
    """Returns what a command in a checkout prints.  Raises DevclusterError."""
    try:
        done = subprocess.run(words, cwd=path, capture_output=True, text=True, check=False)
    except OSError as error:
        raise DevclusterError(failed, evidence=str(error), hint=hint) from error
    if done.returncode:
        raise DevclusterError(failed, evidence=done.stderr[-500:], hint=hint)
    return done.stdout.strip()


def environment(kubeconfig: Path, process: Process) -> dict[str, str]:
    """Returns the environment of a published operator: settings of this one would change it, too."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("FOURNOS_")}
    return {**plain, "KUBECONFIG": str(kubeconfig), **process.environment}


PUBLISHED: Final = {
    "fournos": PublishedOperator(
        main="fournos/__main__.py",
        crd="manifests/crd.yaml",
        our_crd="manifests/crd.yaml",
        part="jobs",
        subject=lifecycle.JOBS,
        onlooker=Executors,
        prepare=_interpreted,
        process=_fournos,
    ),
    "appwrapper": PublishedOperator(
        main="cmd/main.go",
        crd="config/crd/bases/workload.codeflare.dev_appwrappers.yaml",
        our_crd="deploy/appwrapper/crd.yaml",
        part="appwrappers",
        subject=appwrappers.SUBJECT,
        onlooker=appwrappers.Node,
        prepare=_built("./cmd"),
        process=_appwrapper,
        settings=appwrappers.settings(own=False),
    ),
    "minicluster": PublishedOperator(
        main="main.go",
        crd="config/crd/bases/flux-framework.org_miniclusters.yaml",
        our_crd="deploy/minicluster/crd.yaml",
        part="miniclusters",
        subject=miniclusters.SUBJECT,
        onlooker=miniclusters.Onlookers,
        prepare=_built("."),
        process=_minicluster,
        settings=miniclusters.SETTINGS,
    ),
}
"""Option of `bench upstream` → the published operator whose checkout it names."""
