"""Wiring: the AppWrapper system as the runtime takes it."""

from __future__ import annotations

from functools import partial

from fournos.appwrappers.context import Observed
from fournos.appwrappers.decide import decide
from fournos.appwrappers.observe import Observer, follow, watches
from fournos.appwrappers.settings import AppWrapperSettings
from fournos.runtime.system import System

APPWRAPPERS = "appwrappers"


def appwrappers_system(settings: AppWrapperSettings) -> System[Observed]:
    return System(
        name=APPWRAPPERS,
        watches=watches(settings),
        observe=Observer(settings),
        decide=partial(decide, settings=settings),
        primary=lambda observed: observed.wrapper,
        follow=follow,
    )
