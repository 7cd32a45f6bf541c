"""The part `appwrappers`: AppWrappers."""

from __future__ import annotations

from functools import partial

from fournos.api.appwrapper import DEFINITION
from fournos.api.required import APPWRAPPER
from fournos.appwrappers.controller import APPWRAPPERS, appwrappers_controller
from fournos.appwrappers.metrics import count_phase, report
from fournos.appwrappers.rights import RIGHTS
from fournos.appwrappers.rules import RULES
from fournos.appwrappers.settings import AppWrapperSettings
from fournos.appwrappers.webhooks import appwrapper_webhooks
from fournos.queueing.kinds import KUEUE
from fournos.runtime.clock import Clock
from fournos.runtime.metrics import Metrics
from fournos.runtime.part import Part, Running, Wake, WebhookManifest
from fournos.runtime.webhook.registration import Service


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
    rights=RIGHTS,
    required=(APPWRAPPER, KUEUE),
    webhooks=appwrapper_webhooks,
    webhook_manifest=WebhookManifest(
        "deploy/appwrapper/webhooks.yaml",
        Service("appwrapper-system", "appwrapper-webhook-service"),
        AppWrapperSettings,
    ),
    kinds=((DEFINITION, RULES),),
)
