"""The part `schedules`: FournosSchedules."""

from __future__ import annotations

from functools import partial

from fournos.api.fournosschedule import DEFINITION
from fournos.engine.api.required import FOURNOS
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import Part, Running, Wake, WebhookManifest
from fournos.engine.runtime.webhook.registration import Service
from fournos.systems.schedules.controller import schedules_controller
from fournos.systems.schedules.metrics import ExpectedSuccesses, count_written, report
from fournos.systems.schedules.names import LEASE, SCHEDULES
from fournos.systems.schedules.rules import RULES
from fournos.systems.schedules.settings import ScheduleSettings
from fournos.systems.schedules.webhooks import schedule_webhooks


def start(settings: ScheduleSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    expected = ExpectedSuccesses()
    return Running(
        [schedules_controller(settings, written=partial(count_written, metrics))],
        refresh=lambda manager: report(manager.caches(SCHEDULES), metrics, expected),
    )


PART = Part(
    name=SCHEDULES,
    title="Schedules (`fournos run --enable schedules`)",
    settings=ScheduleSettings,
    start=start,
    lease=LEASE,
    required=(FOURNOS,),
    webhooks=schedule_webhooks,
    webhook_manifest=WebhookManifest(
        "deploy/job-webhooks/schedules.yaml",
        Service("fournos-operator", "fournos-webhooks"),
        lambda: ScheduleSettings(namespace="fournos"),
    ),
    kinds=((DEFINITION, RULES),),
)
