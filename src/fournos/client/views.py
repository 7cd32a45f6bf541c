"""The typed, read-only view of a job as last read.  Pure: sends no request."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

from fournos.client.handles import View
from fournos.insight.timeline import Entry, timeline
from fournos.insight.values import created, hardware, is_terminal, one_line, phase_of, short, since
from fournos.jobs.names import display_name
from fournos.kube.resource import Obj

if TYPE_CHECKING:
    from rich.text import Text

    from fournos.api.fournosjob import Attempt, FournosJob, FournosJobSpec, FournosJobStatus
    from fournos.api.model import StatusCondition

_COLOURS = {
    "Succeeded": "green",
    "Failed": "red",
    "Stopped": "purple",
    "Stopping": "purple",
    "Running": "blue",
}


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
    def phase(self) -> str:
        """The phase, such as Running; New while no operator has reconciled the job."""
        return phase_of(self.raw)

    @property
    def ended(self) -> bool:
        """True if the job has succeeded, failed or was stopped."""
        return is_terminal(self.raw)

    @property
    def succeeded(self) -> bool:
        return self.phase == "Succeeded"

    @property
    def message(self) -> str:
        """The status message on one line: what the job waits for, or why it ended."""
        return one_line((self.raw.get("status") or {}).get("message"))

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
    def conditions(self) -> tuple[StatusCondition, ...]:
        return self.status.conditions

    @property
    def timeline(self) -> list[Entry]:
        """The phases of the job with their durations; the current one lasts until now."""
        return timeline(self.raw, datetime.now(UTC))

    @property
    def dashboard_url(self) -> str | None:
        """The address of the run's page in the Tekton Dashboard; None if it is not known."""
        return self.status.dashboard_url

    # --- as notebooks and terminals show it ------------------------------------------------------------

    def _facts(self) -> list[tuple[str, str]]:
        now = datetime.now(UTC)
        phases = ", ".join(f"{entry.phase} {short(entry.length)}" for entry in self.timeline)
        rows = [
            ("Cluster", self.cluster or "-"),
            ("Hardware", self.hardware),
            ("Phases", phases or "-"),
            ("Created", f"{since(created(self.raw), now)} ago"),
            ("Message", self.message or "-"),
        ]
        return [(name, text) for name, text in rows if text != "-"]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.namespace}/{self.name} {self.phase}>"

    def _repr_html_(self) -> str:
        """HTML for notebooks.  All values come from the object: they are untrusted and are escaped."""
        colour = _COLOURS.get(self.phase, "inherit")
        rows = [f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in self._facts()]
        url = str(self.dashboard_url or "")
        if url.startswith(("https://", "http://")):
            link = f'<a href="{escape(url)}" rel="noopener noreferrer">{escape(url)}</a>'
            rows.append(f"<tr><th>Run</th><td>{link}</td></tr>")
        head = f'<b>{escape(self.name)}</b> <span style="color:{colour}">{escape(self.phase)}</span>'
        return f"<div>{head}<table>{''.join(rows)}</table></div>"

    def __rich__(self) -> Text:
        from rich.text import Text

        from fournos.api.text import escaped_line

        lines = [Text.assemble((self.name, "bold"), "  ", self.phase)]
        lines += [Text.assemble((f"  {name:<9} ", "dim"), escaped_line(text)) for name, text in self._facts()]
        return Text("\n").join(lines)


def _typed(document: Obj) -> FournosJob:
    # Imported here: the models take a third of the client's import time.
    from fournos.api.fournosjob import FournosJob

    return FournosJob.model_validate(document)


def values_of(model: Any) -> dict[str, Any]:
    """Returns the fields of a typed model that were set, with their JSON names and values."""
    found: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return found
