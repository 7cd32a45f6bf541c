"""The FournosJob controller, as the manager registers it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fournos.jobs.context import Observed
from fournos.jobs.decide import decide
from fournos.jobs.observe import Observer, watches
from fournos.jobs.settings import JobSettings
from fournos.jobs.template import Template
from fournos.kube.resource import Obj
from fournos.queueing.managed import managed_elsewhere
from fournos.runtime.controller import Controller

JOBS = "jobs"


def jobs_controller(
    settings: JobSettings, template: Template, *, written: Callable[[Obj, Obj], None] | None = None
) -> Controller[Observed]:
    """Returns the controller of FournosJobs of a namespace.  `written` is called after each status write."""
    return Controller(
        name=JOBS,
        watches=watches(settings),
        observe=Observer(settings),
        decide=partial(decide, settings=settings, template=template),
        primary=lambda observed: observed.job,
        owns_status=lambda primary: not managed_elsewhere(primary.get("spec") or {}),
        written=written,
    )
