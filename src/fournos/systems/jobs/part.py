"""The part `jobs`: FournosJobs."""

from __future__ import annotations

import logging
from typing import Final

from fournos.api.fournosjob import DEFINITION
from fournos.engine.queueing.kinds import KUEUE
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import Part, Running, Wake, WebhookManifest
from fournos.engine.runtime.preflight import FOURNOS, TEKTON
from fournos.engine.runtime.webhook.registration import Service
from fournos.systems.jobs.controller import JOBS, jobs_controller
from fournos.systems.jobs.garbage_collection import orphans_controller
from fournos.systems.jobs.metrics import JobMetrics
from fournos.systems.jobs.names import LEASE
from fournos.systems.jobs.own_job import job_webhooks
from fournos.systems.jobs.rules import RULES
from fournos.systems.jobs.settings import JobSettings
from fournos.systems.jobs.template import load_template, template_roots

log = logging.getLogger(__name__)

OPERATOR_NAMESPACE: Final = "fournos-operator"
"""The operator's own namespace in deploy/."""
_SERVICE: Final = Service(OPERATOR_NAMESPACE, "fournos-webhooks")


def start(settings: JobSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    template = load_template(settings.resolve_job_template, roots=template_roots())
    if template.error:
        log.error("the resolve Job template '%s' %s: jobs wait", template.path, template.error)
    counted = JobMetrics(metrics, clock)
    return Running(
        [jobs_controller(settings, template, written=counted.written), orphans_controller(settings)],
        started=lambda manager: counted.attach(manager.caches(JOBS)),
        refresh=lambda manager: counted.report(),
    )


PART = Part(
    name=JOBS,
    title="The operator (`fournos run`)",
    settings=JobSettings,
    start=start,
    lease=LEASE,
    required=(FOURNOS, KUEUE, TEKTON),
    collect_interval=lambda settings: settings.gc_interval_sec,
    webhooks=job_webhooks,
    webhook_manifest=WebhookManifest(
        "deploy/job-webhooks/webhooks.yaml", _SERVICE, lambda: JobSettings(namespace="fournos")
    ),
    kinds=((DEFINITION, RULES),),
)
