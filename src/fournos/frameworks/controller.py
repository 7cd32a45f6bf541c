"""Wiring: one system a configured kind, as the runtime takes it."""

from __future__ import annotations

from functools import partial

from fournos.frameworks.context import Observed
from fournos.frameworks.decide import decide
from fournos.frameworks.kind_spec import Framework
from fournos.frameworks.observe import Observer, left_over, watches
from fournos.frameworks.settings import FrameworkSettings
from fournos.runtime.controller import Controller


def framework_controllers(settings: FrameworkSettings) -> list[Controller[Observed]]:
    """A kind whose CRD is missing waits for it and stops no other."""
    return [framework_controller(one, settings.max_attempts) for one in settings.frameworks()]


def framework_controller(framework: Framework, max_attempts: int) -> Controller[Observed]:
    return Controller(
        name=f"frameworks {framework.resource}",
        watches=watches(framework),
        observe=Observer(framework),
        decide=partial(decide, framework=framework, max_attempts=max_attempts),
        primary=lambda observed: observed.primary,
        collect=left_over(framework),
    )
