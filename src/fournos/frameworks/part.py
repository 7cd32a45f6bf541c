"""The part `frameworks`: kinds that are queued by configuration."""

from __future__ import annotations

from fournos.frameworks.admission import webhooks
from fournos.frameworks.controller import framework_controllers
from fournos.frameworks.rights import RIGHTS
from fournos.frameworks.settings import FrameworkSettings
from fournos.queueing.kinds import KUEUE
from fournos.runtime.clock import Clock
from fournos.runtime.metrics import Metrics
from fournos.runtime.part import Part, Running, Wake, WebhookManifest
from fournos.runtime.webhook.registration import Service


def start(settings: FrameworkSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    return Running(framework_controllers(settings))


PART = Part(
    name="frameworks",
    title="Kinds by configuration (`fournos run --enable frameworks`)",
    settings=FrameworkSettings,
    start=start,
    lease="frameworks",
    rights=RIGHTS,
    required=(KUEUE,),
    webhooks=lambda settings: webhooks(settings.frameworks()),
    webhook_manifest=WebhookManifest(
        "deploy/frameworks/webhooks.yaml",
        Service("fournos-frameworks", "fournos-frameworks"),
        lambda: FrameworkSettings(file="", kinds=()),
    ),
)
