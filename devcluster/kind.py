"""The provider `kind`: Kubernetes in Docker or Podman, for machines where the native provider cannot run.

Unverified: it was written without access to Docker or an image registry.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from devcluster import state, upstream
from devcluster.errors import NotSupportedError
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


class KindProvider:
    """See Provider. Needs `kind`, Docker or Podman, and access to public image registries."""

    def up(self, record: Record, progress: Progress) -> None:
        spec = record.spec
        if spec.profile != "full" or spec.controllers or spec.kueue_config:
            raise NotSupportedError(
                "The provider `kind` knows the profile `full` with the parts' own settings only",
                hint="Use --provider native for --profile control-plane, --controllers and --kueue-config.",
            )
        _require()
        progress.print(f"Note: {UNVERIFIED}")
        with progress.step("Starting a cluster with kind", usual="60 s"):
            run(
                [
                    "kind",
                    "create",
                    "cluster",
                    "--name",
                    spec.name,
                    "--kubeconfig",
                    record.kubeconfig,
                    "--wait",
                    "5m",
                ],
                limit=_START_LIMIT,
            )
        kubectl = Kubectl(kubectl_program(), record.kubeconfig)
        for part in PARTS:
            if spec.has(part):
                with progress.step(f"Installing {part}", usual="60 s"):
                    upstream.apply_release(kubectl, part, spec.version_set)
                await_part(kubectl, part, progress, limit=300)
        record.phase = "ready"
        record.save()

    def down(self, record: Record, progress: Progress) -> None:
        _require()
        with progress.step(f"Deleting kind's cluster {record.spec.name}"):
            run(["kind", "delete", "cluster", "--name", record.spec.name], limit=120)
        state.remove(record.spec.name)

    def status(self, record: Record) -> list[ComponentStatus]:
        if not record.kubeconfig.is_file() or not Kubectl(kubectl_program(), record.kubeconfig).answers(
            "/readyz"
        ):
            return [ComponentStatus("API", "failed", "the API server does not answer /readyz")]
        return [ComponentStatus("API", "running", "answers /readyz")]

    def load(self, record: Record, archive: Path, progress: Progress) -> None:
        with progress.step(f"Loading {archive.name}"):
            run(["kind", "load", "image-archive", archive, "--name", record.spec.name], limit=300)

    def logs(self, record: Record, component: str, *, tail: int) -> str:
        return pod_logs(Kubectl(kubectl_program(), record.kubeconfig), component, tail)

    def kubectl(self, record: Record) -> list[str]:
        return Kubectl(kubectl_program(), record.kubeconfig).words()


def _require() -> None:
    if shutil.which("kind") is None:
        raise NotSupportedError(
            "`kind` is not installed", hint="Install kind, and Docker or Podman, or choose another provider."
        )
    if not any(shutil.which(engine) for engine in ("docker", "podman", "nerdctl")):
        raise NotSupportedError("`kind` needs Docker or Podman, and neither is installed")
