"""The provider `kind`: Kubernetes in Docker or Podman, for machines where the native provider cannot run.

Unverified by this project's tests, which play `kind` and the engine.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from devcluster import state, upstream
from devcluster.engine import require_engine
from devcluster.errors import CommandFailedError, DevclusterError, NotSupportedError
from devcluster.existing import kubectl_program, pod_logs
from devcluster.install import await_part
from devcluster.kubectl import Kubectl
from devcluster.progress import Progress
from devcluster.provider import ComponentStatus
from devcluster.shell import run
from devcluster.spec import PARTS
from devcluster.state import Record

UNVERIFIED = "The provider `kind` has never been exercised by this project's tests."
_START_LIMIT = 600.0
_ASK_LIMIT = 60.0


class KindProvider:
    """See Provider. Needs `kind`, Docker or Podman, and access to public image registries."""

    def up(self, record: Record, progress: Progress) -> None:
        spec = record.spec
        if spec.profile != "full" or spec.controllers or spec.kueue_config:
            raise NotSupportedError(
                "The provider `kind` knows the profile `full` with the parts' own settings only",
                hint="Use --provider native for --profile control-plane, --controllers and --kueue-config.",
            )
        engine, program = _engine(), kubectl_program()
        if spec.name in _clusters(engine):
            raise NotSupportedError(
                f"kind has a cluster {spec.name} already, which was not made here",
                hint=f"Choose another name, or remove that one first: kind delete cluster --name {spec.name}",
            )
        progress.print(f"Note: {UNVERIFIED}")
        with progress.step(f"Starting a cluster with kind and {engine}", usual="60 s"):
            try:
                words = ("create", "cluster", "--name", spec.name, "--kubeconfig", record.kubeconfig)
                _kind(engine, *words, "--wait", "5m", limit=_START_LIMIT)
            except (CommandFailedError, KeyboardInterrupt) as error:
                # There was none of this name before: what there is now is of this call.
                if "already exist" not in str(error):
                    _delete(engine, record)
                raise
        record.engine = engine  # from here on `down` deletes it
        record.save()
        kubectl = Kubectl(program, record.kubeconfig)
        for part in PARTS:
            if spec.has(part):
                with progress.step(f"Installing {part}", usual="60 s"):
                    upstream.apply_release(kubectl, part, spec.version_set)
                await_part(kubectl, part, progress, limit=300)
        record.phase = "ready"
        record.save()

    def down(self, record: Record, progress: Progress) -> None:
        if record.engine:
            with progress.step(f"Deleting kind's cluster {record.spec.name}"):
                _delete(record.engine, record)
        else:
            progress.print(f"kind has made no cluster {record.spec.name} from here: only its record goes.")
        state.remove(record.spec.name)

    def status(self, record: Record) -> list[ComponentStatus]:
        if not record.kubeconfig.is_file() or not Kubectl(kubectl_program(), record.kubeconfig).answers(
            "/readyz"
        ):
            return [ComponentStatus("API", "failed", "the API server does not answer /readyz")]
        return [ComponentStatus("API", "running", "answers /readyz")]

    def load(self, record: Record, archive: Path, progress: Progress) -> None:
        with progress.step(f"Loading {archive.name}"):
            words = ("load", "image-archive", archive, "--name", record.spec.name)
            _kind(record.engine, *words, limit=300)

    def logs(self, record: Record, component: str, *, tail: int) -> str:
        return pod_logs(Kubectl(kubectl_program(), record.kubeconfig), component, tail)

    def kubectl(self, record: Record) -> list[str]:
        return Kubectl(kubectl_program(), record.kubeconfig).words()


def _engine() -> str:
    """Returns the engine that answers.  Raises NotSupportedError where kind cannot make a cluster."""
    if shutil.which("kind") is None:
        raise NotSupportedError(
            "`kind` is not installed", hint="Install kind, and Docker or Podman, or choose another provider."
        )
    try:
        return require_engine("The provider `kind`").program
    except DevclusterError as error:
        raise NotSupportedError(error.message, hint=error.hint) from None


def _clusters(engine: str) -> list[str]:
    return _kind(engine, "get", "clusters", limit=_ASK_LIMIT).stdout.split()


def _delete(engine: str, record: Record) -> None:
    words = ("delete", "cluster", "--name", record.spec.name, "--kubeconfig", record.kubeconfig)
    _kind(engine, *words, limit=120)


def _kind(engine: str, *words: str | Path, limit: float) -> subprocess.CompletedProcess[str]:
    """Runs kind with this engine: by itself it takes the first whose client is there, answering or not."""
    return run(["kind", *words], limit=limit, env={"KIND_EXPERIMENTAL_PROVIDER": engine})
