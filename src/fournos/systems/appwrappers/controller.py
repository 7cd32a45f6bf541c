"""Builds the controller of the AppWrapper operator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.managed import managed_elsewhere
from fournos.engine.runtime.controller import Controller
from fournos.systems.appwrappers.context import Observed
from fournos.systems.appwrappers.decide import decide
from fournos.systems.appwrappers.observe import Observer, follow, watches
from fournos.systems.appwrappers.settings import AppWrapperSettings

APPWRAPPERS = "appwrappers"


def appwrappers_controller(
    settings: AppWrapperSettings, *, written: Callable[[Obj, Obj], None] | None = None
) -> Controller[Observed]:
    """Returns the controller of AppWrappers. `written` is called after each status write."""
    return Controller(
        name=APPWRAPPERS,
        published_name="AppWrapper",
        watches=watches(settings),
        observe=Observer(settings),
        decide=partial(decide, settings=settings),
        primary=lambda observed: observed.wrapper,
        owns_status=lambda primary: not managed_elsewhere(primary.get("spec") or {}),
        follow=follow,
        written=written,
    )
