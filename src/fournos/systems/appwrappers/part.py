"""The part `appwrappers`: AppWrappers."""

from __future__ import annotations

from functools import partial

from fournos.api.appwrapper import DEFINITION
from fournos.engine.queueing.kinds import KUEUE
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import Part, Running, Wake, WebhookManifest
from fournos.engine.runtime.preflight import APPWRAPPER
from fournos.engine.runtime.webhook.registration import Service
from fournos.systems.appwrappers.controller import APPWRAPPERS, appwrappers_controller
from fournos.systems.appwrappers.metrics import count_phase, report
from fournos.systems.appwrappers.rules import RULES
from fournos.systems.appwrappers.settings import AppWrapperSettings
from fournos.systems.appwrappers.webhooks import appwrapper_webhooks


def start(settings: AppWrapperSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    return Running(
        [appwrappers_controller(settings, written=partial(count_phase, metrics))],
        refresh=lambda manager: report(manager.caches(APPWRAPPERS), metrics),
    )


PART = Part(
    name=APPWRAPPERS,
    title="AppWrappers (`fournos run --enable appwrappers`)",
    settings=AppWrapperSettings,
    start=start,
    lease="appwrappers",
    required=(APPWRAPPER, KUEUE),
    webhooks=appwrapper_webhooks,
    webhook_manifest=WebhookManifest(
        "deploy/appwrapper/webhooks.yaml",
        Service("appwrapper-system", "appwrapper-webhook-service"),
        AppWrapperSettings,
    ),
    kinds=((DEFINITION, RULES),),
)
