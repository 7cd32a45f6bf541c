"""The provider `existing`: a cluster given by a kubeconfig. Nothing is installed unless requested."""

from __future__ import annotations

import shutil
from pathlib import Path

from devcluster import state, upstream
from devcluster.binaries import Built
from devcluster.errors import DevclusterError, NotSupportedError
from devcluster.install import POD_COMPONENTS, await_part
from devcluster.kubectl import Kubectl
from devcluster.progress import Progress
from devcluster.provider import ComponentStatus
from devcluster.spec import PARTS
from devcluster.state import Record
from devcluster.versions import chosen


class ExistingProvider:
    """See Provider. `down` removes only the record and leaves the cluster unchanged."""

    def up(self, record: Record, progress: Progress) -> None:
        spec = record.spec
        source = Path(spec.kubeconfig or "")
        if not source.is_file():
            raise DevclusterError(f"There is no kubeconfig {source}")
        kubectl = Kubectl(kubectl_program(), source)
        with progress.step(f"Asking the API server of {source}"):
            if not kubectl.answers("/readyz"):
                raise DevclusterError(f"The API server of {source} does not answer /readyz")
        for part in PARTS:
            if not spec.has(part) or upstream.is_installed(kubectl, part):
                continue
            if not spec.install:
                raise DevclusterError(
                    f"{part} is not installed in that cluster",
                    hint=f"Add --install to install it, or --without {part} to go without.",
                )
            with progress.step(f"Installing {part}", usual="60 s"):
                upstream.apply_release(kubectl, part, spec.version_set)
            await_part(kubectl, part, progress, limit=300)
        # Flattened, because a kubeconfig may name files relative to its own directory.
        record.kubeconfig.touch(mode=0o600)
        record.kubeconfig.write_text(kubectl.run("config", "view", "--raw", "--flatten").stdout)
        record.phase = "ready"
        record.save()

    def down(self, record: Record, progress: Progress) -> None:
        state.remove(record.spec.name)
        progress.print(f"Forgot {record.spec.name}; the cluster itself and what is installed in it stay.")

    def status(self, record: Record) -> list[ComponentStatus]:
        kubectl = Kubectl(kubectl_program(), record.kubeconfig)
        if not record.kubeconfig.is_file() or not kubectl.answers("/readyz"):
            return [ComponentStatus("API", "failed", "the API server does not answer /readyz")]
        rows = [ComponentStatus("API", "running", "answers /readyz")]
        for part in PARTS:
            if record.spec.has(part):
                there = upstream.is_installed(kubectl, part)
                rows.append(
                    ComponentStatus(part, "running" if there else "absent", upstream.DEFINITIONS[part])
                )
        return rows

    def load(self, record: Record, archive: Path, progress: Progress) -> None:
        raise NotSupportedError(
            f"Images cannot be loaded into {record.spec.name}: it is not ours",
            hint="Push the image to a registry that the cluster pulls from.",
        )

    def logs(self, record: Record, component: str, *, tail: int) -> str:
        return pod_logs(Kubectl(kubectl_program(), record.kubeconfig), component, tail)

    def kubectl(self, record: Record) -> list[str]:
        return Kubectl(kubectl_program(), record.kubeconfig).words()


def kubectl_program() -> list[str]:
    """Returns the built kubectl, else the one on PATH. Raises NotSupportedError if there is neither."""
    built = Built(chosen())
    if (built.bin / "hyper").is_file():
        return built.kubectl
    on_path = shutil.which("kubectl")
    if on_path is None:
        raise NotSupportedError(
            "There is no kubectl", hint="Install kubectl, or run `python -m devcluster build` on Linux."
        )
    return [on_path]


def pod_logs(kubectl: Kubectl, component: str, tail: int) -> str:
    """Returns the log of a component that runs as a Deployment. Raises DevclusterError for an unknown one."""
    if component not in POD_COMPONENTS:
        raise DevclusterError(f"No component {component!r}", hint=f"There are: {', '.join(POD_COMPONENTS)}.")
    namespace, deployment = POD_COMPONENTS[component]
    return kubectl.run("-n", namespace, "logs", f"deployment/{deployment}", f"--tail={tail}").stdout
