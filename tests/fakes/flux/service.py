"""The requests of commands to rank 0: one request per connection, then answers; the last one has `end`."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

from . import content, hostlist
from .jobs import Job, UnsatisfiableError
from .leader import Leader
from .wire import Link


class AnswerError(Exception):
    """The request cannot be served."""


EARLY = frozenset({"attr", "dmesg", "ranks", "state"})
"""What the broker itself answers.  All others are served by modules, which rc1 loads."""


async def serve(leader: Leader, link: Link, rank: int) -> None:
    """`rank`: where the command runs."""
    with contextlib.suppress(ConnectionError, OSError):
        request = await link.receive()
        if request is not None:
            try:
                handler = globals()[f"_{request['op']}"]
                request["rank"] = str(rank)
                if leader.broker.state == "init" and request["op"] not in EARLY:
                    raise AnswerError("Function not implemented")
                await link.send(end=True, **(await handler(leader, link, request) or {}))
            except (AnswerError, UnsatisfiableError, hostlist.FormatError) as error:
                await link.send(end=True, error=str(error))
    link.close()


def _found(leader: Leader, request: dict[str, Any]) -> Job:
    for queue in leader.queues.values():
        for job in queue.jobs:
            if job.id == request["id"]:
                return job
    raise AnswerError(f"No such job {request['id']}")


def _row(leader: Leader, job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "username": leader.user,
        "name": job.spec["name"],
        "status_abbrev": job.letter,
        "state": job.state,
        "status": job.result if not job.active else job.state,
        "result": "" if job.active else job.result,
        "ntasks": str(job.spec["ntasks"]),
        "nnodes": str(len(job.ranks) or ""),
        "ranks": hostlist.idset(job.ranks),
        "nodelist": leader.hosts(job.ranks),
        "returncode": "" if job.active else str(job.code),
        "runtime": f"{(job.ended - job.started) if job.started and job.ended else 0:.3f}s",
    }


# --- jobs -------------------------------------------------------------------------------------------------


async def _submit(leader: Leader, link: Link, request: dict[str, Any]) -> dict[str, Any]:
    job = await leader.submit(request["scope"], request["spec"])
    return {"id": job.id}


async def _attach(leader: Leader, link: Link, request: dict[str, Any]) -> dict[str, Any]:
    """Its lines from the first on, until it has ended."""
    job, sent = _found(leader, request), 0
    while True:
        while sent < len(job.lines):
            stream, task, line = job.lines[sent]
            await link.send(stream=stream, task=task, line=line)
            sent += 1
        if not job.active:
            return {"code": job.code, "exception": job.exception}
        await leader.changed.until(partial(_has_more, job, sent))


def _has_more(job: Job, sent: int) -> bool:
    return len(job.lines) > sent or not job.active


async def _jobs(leader: Leader, link: Link, request: dict[str, Any]) -> dict[str, Any]:
    jobs = leader.queue(request["scope"]).jobs
    found = [job for job in jobs if request["all"] or job.active]
    return {"jobs": [_row(leader, job) for job in reversed(found)]}


async def _wait(leader: Leader, link: Link, request: dict[str, Any]) -> dict[str, Any]:
    """Jobs that were submitted as waitable, each once."""
    jobs = leader.queue(request["scope"]).jobs
    wanted = [job for job in jobs if job.spec["waitable"] and not job.waited]
    if request.get("id"):
        wanted = [job for job in wanted if job.id == request["id"]]
        if not wanted:
            raise AnswerError("no such waitable job")
    for job in wanted:
        await leader.changed.until(lambda job=job: not job.active)  # type: ignore[misc]
        job.waited = True
    return {"jobs": [{"id": job.id, "code": job.code, "exception": job.exception} for job in wanted]}


async def _queue(leader: Leader, link: Link, request: dict[str, Any]) -> None:
    """Returns when no job is active."""
    queue = leader.queue(request["scope"])
    await leader.changed.until(lambda: not any(job.active for job in queue.jobs))


# --- ranks ------------------------------------------------------------------------------------------------


async def _ranks(leader: Leader, link: Link, request: dict[str, Any]) -> dict[str, Any]:
    busy = {rank for job in leader.queues[""].jobs if job.state == "RUN" for rank in job.ranks}
    return {
        "ranks": [
            {
                "rank": member.rank,
                "host": member.host,
                "up": leader.up(member.rank),
                "drained": leader.drained.get(member.rank),
                "busy": member.rank in busy,
                "cores": leader.cores[member.rank],
                "free": leader.queues[""].free[member.rank],
                "since": leader.since.get(member.rank, 0),
            }
            for member in leader.members
        ]
    }


async def _drain(leader: Leader, link: Link, request: dict[str, Any]) -> None:
    for rank in _targets(leader, request["targets"]):
        if rank in leader.drained and not request["force"] and request["reason"]:
            raise AnswerError(f"rank {rank} already drained")
        if rank not in leader.drained or request["reason"]:
            leader.drained[rank] = request["reason"]
    await leader.changed.notify()


async def _undrain(leader: Leader, link: Link, request: dict[str, Any]) -> None:
    for rank in _targets(leader, request["targets"]):
        if rank not in leader.drained and not request["force"]:
            raise AnswerError(f"rank {rank} not drained")
        leader.drained.pop(rank, None)
    await leader.changed.notify()


def _targets(leader: Leader, text: str) -> list[int]:
    """Ranks, or host names.  Raises hostlist.FormatError, AnswerError."""
    if text.replace("-", "").replace(",", "").isdecimal():
        return hostlist.ranks(text, leader.size)
    known = {member.host: member.rank for member in leader.members}
    hosts = hostlist.expand(text)
    for host in hosts:
        if host not in known:
            raise AnswerError(f"unknown host {host}")
    return [known[host] for host in hosts]


async def _disconnect(leader: Leader, link: Link, request: dict[str, Any]) -> None:
    for rank in _targets(leader, request["targets"]):
        if rank == 0 or rank not in leader.online:
            raise AnswerError(f"failed to disconnect rank {rank}: No route to host")
        await leader.online[rank].send(do="disconnect")


# --- the instance -----------------------------------------------------------------------------------------


async def _attr(leader: Leader, link: Link, request: dict[str, Any]) -> dict[str, Any]:
    attrs = {**leader.broker.attrs, "rank": request["rank"]}
    if request.get("name") and request["name"] not in attrs:
        raise AnswerError("No such file or directory")
    return {"attrs": attrs}


async def _state(leader: Leader, link: Link, request: dict[str, Any]) -> dict[str, Any]:
    return {"state": leader.broker.state, "size": leader.size}


async def _shutdown(leader: Leader, link: Link, request: dict[str, Any]) -> None:
    if request["dump"]:
        content.dump(leader, request["dump"])
    leader.over.set()


async def _dmesg(leader: Leader, link: Link, request: dict[str, Any]) -> dict[str, Any]:
    return {"lines": leader.logged}
