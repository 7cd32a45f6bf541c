"""Taking down what runs, until the API server itself says that nothing is left.

Quota is given back only then; a cache does not make that promise.
"""

from __future__ import annotations

from dataclasses import dataclass

from fournos.kube.kinds import JOB, POD
from fournos.kube.resource import is_terminating, key_of, uid_of
from fournos.miniclusters import names
from fournos.miniclusters.context import Context
from fournos.runtime.steps import Delete, Step


@dataclass(frozen=True, slots=True)
class Removal:
    done: bool
    steps: tuple[Step, ...] = ()
    unsure: bool = False
    """The API server did not say: ask again later."""


def remove(ctx: Context, *, keep_job: bool = False) -> Removal:
    """The next move.  `keep_job`: of a Job that has ended only what it left running goes; its pods are kept
    for their logs."""
    if not ctx.facts.known((ctx.job_question, ctx.pods_question)):
        return Removal(done=False, unsure=True)
    steps: list[Step] = []
    job = ctx.job
    if job is not None and not keep_job and not is_terminating(job):
        # In the foreground: the Job stays until its pods are gone.
        steps.append(Delete(JOB, key_of(job), uid_of(job), propagation="Foreground"))
    for pod in ctx.alive:
        mine = pod["metadata"]["name"] == names.services_pod(ctx.name) and ctx.owns(pod)
        if mine and not is_terminating(pod):
            steps.append(Delete(POD, key_of(pod), uid_of(pod)))
    done = not ctx.alive and (job is None or keep_job)
    return Removal(done=done, steps=tuple(steps))
