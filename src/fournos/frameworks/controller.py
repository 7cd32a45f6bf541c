"""Wiring: one system a configured kind, as the runtime takes it."""

from __future__ import annotations

from functools import partial

from fournos.frameworks.context import Observed
from fournos.frameworks.decide import decide
from fournos.frameworks.observe import Observer, left_over, watches
from fournos.frameworks.settings import FrameworkSettings
from fournos.frameworks.table import Framework
from fournos.runtime.system import System


def framework_systems(settings: FrameworkSettings) -> list[System[Observed]]:
    """A kind whose CRD is missing waits for it and stops no other."""
    return [framework_system(one, settings.max_attempts) for one in settings.frameworks()]


def framework_system(framework: Framework, max_attempts: int) -> System[Observed]:
    return System(
        name=f"frameworks {framework.resource}",
        watches=watches(framework),
        observe=Observer(framework),
        decide=partial(decide, framework=framework, max_attempts=max_attempts),
        primary=lambda observed: observed.primary,
        collect=left_over(framework),
    )
