"""The typed, read-only view of a job as last read.  Pure: sends no request."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fournos.client.handles import View
from fournos.engine.kube.resource import Obj
from fournos.insight.timeline import Entry, timeline
from fournos.insight.values import hardware, hardware_of, is_terminal, moment, short, spec_of, status_of
from fournos.systems.jobs.names import display_name

if TYPE_CHECKING:
    from fournos.api.fournosjob import Attempt, FournosJob, FournosJobSpec, FournosJobStatus


class JobView(View):
    """A typed view of a job as last read; `raw` is the whole object."""

    @property
    def display_name(self) -> str:
        """The name for display: spec.displayName, else the name."""
        return display_name(self.raw)

    @property
    def spec(self) -> FournosJobSpec:
        """The spec as a typed model; unset fields have their defaults."""
        return _typed({"spec": self.raw.get("spec") or {}}).spec

    @property
    def status(self) -> FournosJobStatus:
        """The status as a typed model."""
        return _typed({"status": self.raw.get("status") or {}}).status

    @property
    def ended(self) -> bool:
        """True if the job has succeeded, failed or was stopped."""
        return is_terminal(self.raw)

    @property
    def succeeded(self) -> bool:
        """True if the job has succeeded."""
        return self.phase == "Succeeded"

    @property
    def cluster(self) -> str | None:
        """The cluster on which the job runs or ran; None while none is assigned."""
        return self.status.cluster

    @property
    def hardware(self) -> str:
        """The GPUs, such as "2 x a100"; "-" if none are requested."""
        return hardware(self.raw)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The attempts in the status."""
        return self.status.attempts

    @property
    def timeline(self) -> list[Entry]:
        """The phases of the job with their durations; the current one lasts until now."""
        return timeline(self.raw, datetime.now(UTC))

    @property
    def dashboard_url(self) -> str | None:
        """The address of the run's page in the Tekton Dashboard; None if it is not known."""
        return self.status.dashboard_url

    # --- as notebooks, terminals and data frames show it -------------------------------------------------

    def _link(self) -> str:
        return str(self.dashboard_url or "")

    def _facts(self, now: datetime) -> list[tuple[str, str]]:
        return [("Cluster", self.cluster or "-"), ("Hardware", self.hardware)]

    def _timeline(self, now: datetime) -> str:
        return ", ".join(f"{entry.phase} {short(entry.length)}" for entry in timeline(self.raw, now))

    def _columns(self) -> dict[str, Any]:
        times = status_of(self.raw).get("phaseTimes") or {}
        lengths = {entry.phase.lower(): entry.length for entry in self.timeline}
        gpus = hardware_of(self.raw)
        return {
            **super()._columns(),
            "owner": spec_of(self.raw).get("owner"),
            "cluster": self.cluster,
            "gpu_type": gpus.get("gpuType"),
            "gpu_count": gpus.get("gpuCount"),
            "attempt": status_of(self.raw).get("attempt"),
            "started": moment(times.get("running")),
            "finished": moment(times.get("finished")),
            **{f"{phase}_for": lengths.get(phase) for phase in ("resolving", "pending", "running")},
        }


def _typed(document: Obj) -> FournosJob:
    # Imported here: the models take a third of the client's import time.
    from fournos.api.fournosjob import FournosJob

    return FournosJob.model_validate(document)


def values_of(model: Any) -> dict[str, Any]:
    """Returns the fields of a typed model that were set, with their JSON names and values."""
    found: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return found
