"""The controllers of the configured kinds, one per kind, as the manager registers them."""

from __future__ import annotations

from functools import partial

from fournos.engine.runtime.controller import Controller
from fournos.systems.frameworks.context import Observed
from fournos.systems.frameworks.decide import decide
from fournos.systems.frameworks.kind_spec import Framework
from fournos.systems.frameworks.observe import Observer, left_over, watches
from fournos.systems.frameworks.settings import FrameworkSettings


def framework_controllers(settings: FrameworkSettings) -> list[Controller[Observed]]:
    """Returns one controller per kind; a kind without a CRD waits for it and does not affect the others."""
    return [framework_controller(one) for one in settings.frameworks()]


def framework_controller(framework: Framework) -> Controller[Observed]:
    """Returns the controller of one kind."""
    return Controller(
        name=f"frameworks {framework.resource}",
        watches=watches(framework),
        observe=Observer(framework),
        decide=partial(decide, framework=framework),
        primary=lambda observed: observed.primary,
        collect=left_over(framework),
    )
