"""Takes down the Job and pods, until the API server confirms that none is left.

Quota is released only then, and only after live reads: a pod that the cache does not show may still run.
"""

from __future__ import annotations

from dataclasses import dataclass

from fournos.engine.kube.resource import JOB, POD, is_terminating, key_of, uid_of
from fournos.engine.runtime.steps import Delete, Step
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.context import Context


@dataclass(frozen=True, slots=True)
class Removal:
    """The next steps of a teardown."""

    done: bool
    steps: tuple[Step, ...] = ()
    unsure: bool = False
    """True if the API server could not be read; retry later."""


def remove(ctx: Context, *, keep_job: bool = False) -> Removal:
    """Returns the next steps.

    With `keep_job` the Job has ended: it and its ended pods are kept for their logs, and only pods that still
    run are deleted.
    """
    if not ctx.facts.known((ctx.job_question, ctx.pods_question)):
        return Removal(done=False, unsure=True)
    steps: list[Step] = []
    job = ctx.job
    if job is not None and not keep_job and not is_terminating(job):
        # Foreground deletion: the Job exists until its pods are gone.
        steps.append(Delete(JOB, key_of(job), uid_of(job), propagation="Foreground"))
    for pod in ctx.alive:
        owned = pod["metadata"]["name"] == names.services_pod(ctx.name) and ctx.owns(pod)
        if owned and not is_terminating(pod):
            steps.append(Delete(POD, key_of(pod), uid_of(pod)))
    done = not ctx.alive and (job is None or keep_job)
    return Removal(done=done, steps=tuple(steps))
