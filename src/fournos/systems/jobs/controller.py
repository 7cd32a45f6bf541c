"""The FournosJob controller, as the manager registers it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.managed import managed_elsewhere
from fournos.engine.runtime.controller import Controller
from fournos.systems.jobs.context import Observed
from fournos.systems.jobs.decide import decide
from fournos.systems.jobs.observe import Observer, watches
from fournos.systems.jobs.settings import JobSettings
from fournos.systems.jobs.template import Template

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
