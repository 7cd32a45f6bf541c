"""What the buttons of a job do.  The API server and the history decide whether the person may."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.jobs import AsyncJob
from fournos.insight.stopping import HoldVerdict
from fournos.insight.values import is_terminal, name_of, phase_of
from fournos.web.errors import PageError
from fournos.web.routes import Action, Call, Done
from fournos.web.runs.subject import JobSubject, address, subject
from fournos.web.written import Written


async def found(call: Call, form: Mapping[str, str]) -> JobSubject:
    """The job that a form is about: the one with its `uid`, read with the person's own rights."""
    about = replace(call, query={"uid": form.get("uid", "")})
    return await subject(about, source=call.viewer.client.api)


def _handle(call: Call, about: JobSubject) -> AsyncJob:
    return AsyncJob(call.viewer.client, about.raw)


async def _live(call: Call, form: Mapping[str, str]) -> tuple[JobSubject, AsyncJob]:
    about = await found(call, form)
    if not about.live:
        raise PageError(
            409, "Gone", f"The job {name_of(about.raw)} is gone.", "Its page shows what is recorded."
        )
    return about, _handle(call, about)


async def stop(call: Call, form: Mapping[str, str]) -> Done:
    about, job = await _live(call, form)
    verdict = await job.stop(now=form.get("now") == "yes")
    message = verdict.message.partition(" Follow it:")[0]
    return Done(about.address(), message, Written(FOURNOS_JOB, job.raw))


async def hold(call: Call, form: Mapping[str, str]) -> Done:
    return await _suspended(call, form, AsyncJob.hold)


async def unhold(call: Call, form: Mapping[str, str]) -> Done:
    return await _suspended(call, form, AsyncJob.release)


async def _suspended(
    call: Call, form: Mapping[str, str], act: Callable[[AsyncJob], Awaitable[HoldVerdict]]
) -> Done:
    about, job = await _live(call, form)
    verdict = await act(job)
    message = verdict.message.partition(" Queue it again:")[0]
    return Done(about.address(), message, Written(FOURNOS_JOB, job.raw))


async def delete(call: Call, form: Mapping[str, str]) -> Done:
    about, job = await _live(call, form)
    await job.delete()
    notice = f"{job.name} is being deleted: fournos delete -n {about.namespace} {job.name}"
    return Done("/jobs", notice, Written(FOURNOS_JOB, job.raw, deleted=True))


async def retry(call: Call, form: Mapping[str, str]) -> Done:
    about = await found(call, form)
    if not is_terminal(about.raw):
        text = f"{name_of(about.raw)} has not ended: it is {phase_of(about.raw)}."
        raise PageError(409, "Not ended", text, "Wait for its end, or resubmit it as another job.")
    made = await _handle(call, about).resubmit({})
    notice = f"{made.name} is submitted with the spec of {name_of(about.raw)}."
    return Done(address(made.namespace, made.name), notice, Written(FOURNOS_JOB, made.raw))


async def keep(call: Call, form: Mapping[str, str]) -> Done:
    about = await found(call, form)
    history = call.viewer.client.history
    run = (await history.run(about.uid, namespace=about.namespace)).run
    await history.keep(run, reason=form.get("reason", "")[:1024])
    return Done(about.address(), f"{run.name} is kept: it does not expire.")


async def release(call: Call, form: Mapping[str, str]) -> Done:
    about = await found(call, form)
    history = call.viewer.client.history
    run = (await history.run(about.uid, namespace=about.namespace)).run
    await history.release(run)
    return Done(about.address(), f"{run.name} may expire.")


async def forget(call: Call, form: Mapping[str, str]) -> Done:
    about = await found(call, form)
    if about.live or about.run is None:
        raise PageError(409, "Not gone", f"{name_of(about.raw)} exists: delete the job first.")
    await call.viewer.client.history.delete(about.run)
    return Done("/jobs", f"{about.run.name} is deleted from the history.")


ACTIONS: Final = tuple(
    Action(name=f"{act.__name__} job", path=f"/jobs/{{namespace}}/{{name}}/{act.__name__}", act=act)
    for act in (stop, hold, unhold, delete, retry, keep, release, forget)
)
