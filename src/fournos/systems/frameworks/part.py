"""The part `frameworks`: kinds that are queued by configuration."""

from __future__ import annotations

from functools import partial

from fournos.engine.queueing.workload import KUEUE
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Controller
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import Part, Running, Wake, WebhookManifest
from fournos.engine.runtime.webhook.registration import Service
from fournos.systems.frameworks.decide import decide
from fournos.systems.frameworks.kinds import Framework
from fournos.systems.frameworks.observe import Observed, Observer, left_over, watches
from fournos.systems.frameworks.rules import webhooks
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


# --- declaration ---------------------------------------------------------------------------------------


def start(settings: FrameworkSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    return Running(framework_controllers(settings))


PART = Part(
    name="frameworks",
    title="Kinds by configuration (`fournos run --enable frameworks`)",
    settings=FrameworkSettings,
    start=start,
    lease="frameworks",
    namespace="fournos",
    required=(KUEUE,),
    webhooks=lambda settings: webhooks(settings.frameworks()),
    webhook_manifest=WebhookManifest(
        "deploy/frameworks/webhooks.yaml",
        Service("fournos-frameworks", "fournos-frameworks"),
        lambda: FrameworkSettings(file=""),
    ),
)
