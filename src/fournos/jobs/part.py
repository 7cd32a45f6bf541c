"""The part `jobs`: FournosJobs."""

from __future__ import annotations

import logging

from fournos.api.fournosjob import DEFINITION
from fournos.api.required import FOURNOS, TEKTON
from fournos.jobs.controller import JOBS, jobs_controller
from fournos.jobs.files import roots
from fournos.jobs.garbage_collection import orphans_controller
from fournos.jobs.metrics import JobMetrics
from fournos.jobs.own_job import job_webhooks
from fournos.jobs.rights import OPERATOR_NAMESPACE, RIGHTS
from fournos.jobs.rules import RULES
from fournos.jobs.settings import JobSettings
from fournos.jobs.template import load_template
from fournos.queueing.kinds import KUEUE
from fournos.runtime.clock import Clock
from fournos.runtime.metrics import Metrics
from fournos.runtime.part import Part, Running, Wake, WebhookManifest
from fournos.runtime.webhook.registration import Service

log = logging.getLogger(__name__)

_SERVICE = Service(OPERATOR_NAMESPACE, "fournos-webhooks")


def start(settings: JobSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    template = load_template(settings.resolve_job_template, roots=roots())
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
    lease="fournos",
    rights=RIGHTS,
    required=(FOURNOS, KUEUE, TEKTON),
    collect_interval=lambda settings: settings.gc_interval_sec,
    webhooks=job_webhooks,
    webhook_manifest=WebhookManifest(
        "deploy/job-webhooks/webhooks.yaml", _SERVICE, lambda: JobSettings(namespace="fournos")
    ),
    kinds=((DEFINITION, RULES),),
)
