"""The part `schedules`: FournosSchedules."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fournos.api.fournosschedule import DEFINITION
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Controller
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import FOURNOS, Part, Running, Wake
from fournos.systems.schedules.decide import decide
from fournos.systems.schedules.metrics import count_written, report
from fournos.systems.schedules.names import LEASE, SCHEDULES
from fournos.systems.schedules.observe import Observed, observe, watches
from fournos.systems.schedules.rules import RULES
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


def start(settings: ScheduleSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    return Running(
        [schedules_controller(settings, written=partial(count_written, metrics))],
        refresh=lambda manager: report(manager.caches(SCHEDULES), metrics),
    )


PART = Part(
    name=SCHEDULES,
    title="Schedules (`fournos run --enable schedules`)",
    settings=ScheduleSettings,
    start=start,
    lease=LEASE,
    required=(FOURNOS,),
    kinds=((DEFINITION, RULES),),
)
