"""The FournosSchedule controller, as the manager registers it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.controller import Controller
from fournos.systems.schedules.decide import decide
from fournos.systems.schedules.names import SCHEDULES
from fournos.systems.schedules.observe import Observed, observe, watches
from fournos.systems.schedules.settings import ScheduleSettings


def schedules_controller(
    settings: ScheduleSettings, *, written: Callable[[Obj, Obj], None] | None = None
) -> Controller[Observed]:
    """Returns the controller of FournosSchedules.  `written` is called after each status write."""
    return Controller(
        name=SCHEDULES,
        watches=watches(settings),
        observe=observe,
        decide=partial(decide, settings=settings),
        primary=lambda observed: observed.schedule,
        owns_status=lambda schedule: True,
        written=written,
    )
