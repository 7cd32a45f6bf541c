"""The part `frameworks`: kinds that are queued by configuration."""

from __future__ import annotations

from fournos.engine.queueing.kinds import KUEUE
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import Part, Running, Wake, WebhookManifest
from fournos.engine.runtime.webhook.registration import Service
from fournos.systems.frameworks.admission import webhooks
from fournos.systems.frameworks.controller import framework_controllers
from fournos.systems.frameworks.settings import FrameworkSettings


def start(settings: FrameworkSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    return Running(framework_controllers(settings))


PART = Part(
    name="frameworks",
    title="Kinds by configuration (`fournos run --enable frameworks`)",
    settings=FrameworkSettings,
    start=start,
    lease="frameworks",
    required=(KUEUE,),
    webhooks=lambda settings: webhooks(settings.frameworks()),
    webhook_manifest=WebhookManifest(
        "deploy/frameworks/webhooks.yaml",
        Service("fournos-frameworks", "fournos-frameworks"),
        lambda: FrameworkSettings(file="", kinds=()),
    ),
)
