"""A job as a row of a list: what lists of live jobs and of the history show of it.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from fournos.api.phase import run_times
from fournos.engine.kube.resource import Obj, key_of, uid_of
from fournos.insight.selection import cluster_of
from fournos.insight.values import (
    created,
    display_name,
    hardware,
    moment,
    one_line,
    phase_of,
    short,
    spec_of,
    status_of,
)


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job in a list.  Times are in RFC 3339; a text is "" where there is nothing to show."""

    namespace: str
    name: str
    uid: str
    title: str
    """The name for display."""
    phase: str
    owner: str
    cluster: str
    hardware: str
    submitted: str
    started: str
    """When its last run began (`fournos.api.phase.run_times`)."""
    ended: str
    message: str
    live: bool = True
    """False if only the history has it."""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, job: Obj) -> Self:
        """Returns the row of a live job."""
        started, ended = run_times(job)
        return cls(
            namespace=key_of(job).namespace,
            name=key_of(job).name,
            uid=uid_of(job),
            title=display_name(job),
            phase=phase_of(job),
            owner=str(spec_of(job).get("owner") or ""),
            cluster=cluster_of(job).removeprefix("-"),
            hardware=hardware(job).removeprefix("-"),
            submitted=created(job),
            started=started,
            ended=ended,
            message=one_line(status_of(job).get("message")),
            labels=job["metadata"].get("labels") or {},
        )

    @property
    def ran(self) -> str:
        """How long it ran; "" until it has ended."""
        started, ended = moment(self.started), moment(self.ended)
        return short(ended - started) if started and ended else ""
