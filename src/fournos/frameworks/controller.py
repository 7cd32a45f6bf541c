"""The controllers of the configured kinds, one per kind, as the manager registers them."""

from __future__ import annotations

from functools import partial

from fournos.frameworks.context import Observed
from fournos.frameworks.decide import decide
from fournos.frameworks.kind_spec import Framework
from fournos.frameworks.observe import Observer, left_over, watches
from fournos.frameworks.settings import FrameworkSettings
from fournos.runtime.controller import Controller


def framework_controllers(settings: FrameworkSettings) -> list[Controller[Observed]]:
    """Returns one controller per kind; a kind without a CRD waits for it and does not affect the others."""
    return [framework_controller(one, settings.max_attempts) for one in settings.frameworks()]


def framework_controller(framework: Framework, max_attempts: int) -> Controller[Observed]:
    """Returns the controller of one kind."""
    return Controller(
        name=f"frameworks {framework.resource}",
        watches=watches(framework),
        observe=Observer(framework),
        decide=partial(decide, framework=framework, max_attempts=max_attempts),
        primary=lambda observed: observed.primary,
        collect=left_over(framework),
    )
