"""The FournosJob controller, as the manager registers it."""

from __future__ import annotations

from functools import partial

from fournos.jobs.context import Observed
from fournos.jobs.decide import decide
from fournos.jobs.observe import Observer, watches
from fournos.jobs.settings import JobSettings
from fournos.jobs.template import Template
from fournos.runtime.controller import Controller


def jobs_controller(settings: JobSettings, template: Template) -> Controller[Observed]:
    """Returns the controller that reconciles FournosJobs of one namespace."""
    return Controller(
        name="jobs",
        watches=watches(settings),
        observe=Observer(settings),
        decide=partial(decide, settings=settings, template=template),
        primary=lambda observed: observed.job,
    )
