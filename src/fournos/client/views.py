"""The typed, read-only views of an object of any kind and of a job, as last read.  They send no request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any, Final

from fournos.api.phase import Phase, run_times
from fournos.engine.kube.resource import Obj, key_of, uid_of
from fournos.insight.values import (
    TimelineEntry,
    conditions_of,
    created,
    hardware,
    hardware_of,
    is_terminal,
    moment,
    name_of,
    one_line,
    phase_of,
    short,
    since,
    spec_of,
    status_of,
    timeline,
)
from fournos.systems.jobs.names import display_name

if TYPE_CHECKING:
    from rich.text import Text

    from fournos.api.fournosjob import Attempt, FournosJob, FournosJobSpec, FournosJobStatus
    from fournos.engine.api.crd import StatusCondition


_OF_STYLE: Final = {"green": "green", "bold red": "red", "magenta": "purple", "bold blue": "blue"}
_COLOURS: Final = {
    "Ready": "green",  # of MiniClusters
    **{phase.value: _OF_STYLE.get(phase.traits.style, "inherit") for phase in Phase},
}
_MANY: Final = 100
"""Lists show this number of rows."""


def _row(name: str, cell: str) -> str:
    return f"<tr><th>{name}</th><td>{cell}</td></tr>"


def _state(text: str) -> str:
    return f'<span style="color:{_COLOURS.get(text, "inherit")}">{escape(text)}</span>'


def html_table(views: Sequence[View]) -> str:
    """HTML of a list: one row an object, with its state and its facts; at most 100 rows."""
    shown = [(view, dict(view._shown())) for view in views[:_MANY]]
    titles = list(dict.fromkeys(title for _, facts in shown for title in facts))
    head = "".join(f"<th>{title}</th>" for title in ("Name", "State", *titles))
    body = "".join(_line(view, facts, titles) for view, facts in shown)
    more = len(views) - len(shown)
    rest = f"<p>and {more} more</p>" if more > 0 else ""
    return f"<div><table><tr>{head}</tr>{body}</table>{rest}</div>"


def _line(view: View, facts: dict[str, str], titles: Iterable[str]) -> str:
    cells = [escape(view.name), _state(view._state()), *(escape(facts.get(title, "")) for title in titles)]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


class View:
    """A typed view of an object as last read; `raw` is the whole object."""

    @property
    def raw(self) -> Obj:
        """The whole object as last read."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The name of the object."""
        return name_of(self.raw)

    @property
    def namespace(self) -> str:
        """The namespace of the object."""
        return key_of(self.raw).namespace

    @property
    def uid(self) -> str:
        """The identity of the object: a later object of the same name has another UID."""
        return uid_of(self.raw)

    @property
    def created(self) -> datetime | None:
        """The creation time."""
        return moment(created(self.raw))

    @property
    def phase(self) -> str:
        """The phase; New while no operator has reconciled the object."""
        return phase_of(self.raw)

    @property
    def message(self) -> str:
        """The status message on one line; "" if there is none."""
        return one_line(status_of(self.raw).get("message"))

    @property
    def ended(self) -> bool:
        """True if the object has ended, with whatever result."""
        return False

    @property
    def succeeded(self) -> bool:
        """True if the object has ended with success."""
        return False

    @property
    def conditions(self) -> tuple[StatusCondition, ...]:
        """The conditions in the status."""
        # Imported here: the models take a third of the client's import time.
        from fournos.engine.api.crd import StatusCondition

        return tuple(StatusCondition.model_validate(one) for one in conditions_of(self.raw))

    # --- as notebooks, terminals and data frames show it -------------------------------------------------

    def _state(self) -> str:
        """The state in one or a few words."""
        return self.phase

    def _link(self) -> str:
        """The address of a page about the object; "" if there is none."""
        return ""

    def _facts(self, now: datetime) -> list[tuple[str, str]]:
        """Label and text of what is worth a look; facts with the text "" or "-" are left out."""
        return []

    def _timeline(self, now: datetime) -> str:
        """The true conditions in the order in which they became true, with the time since then."""
        found = [one for one in conditions_of(self.raw) if one.get("status") == "True"]
        found.sort(key=lambda one: str(one.get("lastTransitionTime") or ""))
        return ", ".join(f"{one.get('type')} {since(one.get('lastTransitionTime'), now)}" for one in found)

    def _shown(self) -> list[tuple[str, str]]:
        now = datetime.now(UTC)
        rows = [
            *self._facts(now),
            ("Timeline", self._timeline(now)),
            ("Created", f"{since(created(self.raw), now)} ago"),
            ("Message", self.message),
        ]
        return [(label, text) for label, text in rows if text not in ("", "-")]

    def _columns(self) -> dict[str, Any]:
        """Column → value of the object's row in a data frame."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "phase": self.phase,
            "created": self.created,
            "message": self.message,
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.namespace}/{self.name} {self._state()}>"

    def _repr_html_(self) -> str:
        """HTML for notebooks.  All values come from the object: they are untrusted and are escaped."""
        rows = [_row(name, escape(text)) for name, text in self._shown()]
        url = self._link()
        if url.startswith(("https://", "http://")):
            rows.append(_row("Run", f'<a href="{escape(url)}" rel="noopener noreferrer">{escape(url)}</a>'))
        head = f"<b>{escape(self.name)}</b> {_state(self._state())}"
        return f"<div>{head}<table>{''.join(rows)}</table></div>"

    def __rich__(self) -> Text:
        """The same for terminals, by rich.  Control characters are escaped."""
        from rich.text import Text

        from fournos.engine.api.values import escaped_line

        lines = [Text.assemble((escaped_line(self.name), "bold"), "  ", escaped_line(self._state()))]
        lines += [
            Text.assemble((f"  {name:<10} ", "dim"), escaped_line(value)) for name, value in self._shown()
        ]
        return Text("\n").join(lines)


class QueuedView(View):
    """A view of an object that a LocalQueue may admit."""

    @property
    def queue_name(self) -> str:
        """The LocalQueue; "" if the object is not queued."""
        from fournos.engine.queueing.podsets import queue_name

        return queue_name(self.raw)


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
    def timeline(self) -> list[TimelineEntry]:
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
        began, ended = run_times(self.raw)
        lengths = {entry.phase.lower(): entry.length for entry in self.timeline}
        gpus = hardware_of(self.raw)
        return {
            **super()._columns(),
            "owner": spec_of(self.raw).get("owner"),
            "cluster": self.cluster,
            "gpu_type": gpus.get("gpuType"),
            "gpu_count": gpus.get("gpuCount"),
            "attempt": status_of(self.raw).get("attempt"),
            "started": moment(began),
            "finished": moment(ended),
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
