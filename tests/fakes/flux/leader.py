"""Rank 0: who is online, the initial program, tasks on all ranks, the end of the instance."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import signal
import socket
import sys
import tarfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import config, content, hostlist
from .jobs import Change, Job, Queue
from .procs import code_of
from .wire import LIMIT, Link, challenge

if TYPE_CHECKING:
    from .broker import Broker

_KEEPALIVE = ((socket.TCP_KEEPIDLE, 5), (socket.TCP_KEEPINTVL, 2), (socket.TCP_KEEPCNT, 3))
"""A pod that vanishes says no goodbye."""
_RC1 = 0.3
"""Seconds of rc1: the socket is there before it, and SIGTERM may come in the middle of it."""
_GOODBYE = 10.0
"""Seconds that rank 0 waits at its end for the other ranks to hang up."""

SendLine = Callable[[str, str], Awaitable[None]]


class Leader:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.members = broker.boot.members
        self.size = len(self.members)
        self.cores = config.cores(broker.config, self.members)
        self.online: dict[int, Link] = {}
        self.since: dict[int, float] = {0: time.time()}
        self.drained: dict[int, str] = {}
        self.changed = Change()
        self.queues = {"": Queue(self.cores, self.usable)}
        """Scope ("" or the id of a batch job) -> its jobs."""
        self.numbers = 0
        """Archive -> path -> mode and content (base64)."""
        self.running: dict[str, tuple[int, SendLine, asyncio.Future[int]]] = {}
        """Process id -> rank, who hears its lines, its exit code."""
        self.loaded = asyncio.Event()
        """rc1 has succeeded."""
        self.over = asyncio.Event()
        """Somebody has asked for a shutdown."""
        self.logged: list[str] = []

    # --- ranks -------------------------------------------------------------------------------------------

    def up(self, rank: int) -> bool:
        return rank == 0 or rank in self.online

    def usable(self, rank: int) -> bool:
        return self.up(rank) and rank not in self.drained

    def log(self, level: int, message: str) -> None:
        self.logged.append(message)
        self.broker.log(level, message)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(reader, writer)
        peer: socket.socket = writer.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            peer.setsockopt(socket.IPPROTO_TCP, option, value)
        with contextlib.suppress(ConnectionError, OSError):
            greeting = await challenge(link, self.broker.secret)
            if greeting is None:
                self.log(4, "a peer with another certificate was refused")
            elif greeting["kind"] == "client":
                await link.send(uuid=self.broker.uuid)
                await self._client(reader, writer, greeting["rank"])
            elif not 0 < greeting["rank"] < self.size:
                await link.send(refused=f"rank {greeting['rank']} is none of ours")
            else:
                await self.loaded.wait()  # a parent lets its children in after its own rc1
                await self._member(int(greeting["rank"]), link)
        link.close()

    async def _member(self, rank: int, link: Link) -> None:
        if rank in self.online:
            self.online[rank].close()  # its pod was replaced before the old connection was seen to be dead
            self._lost(rank)
        await link.send(uuid=self.broker.uuid)
        if self.broker.state == "run":
            await link.send(do="state", state="run")
        self.online[rank], self.since[rank] = link, time.time()
        self.log(6, f"rank {rank} ({self.members[rank].host}) is online")
        await self.changed.notify()
        while (message := await link.receive()) is not None:
            found = self.running.get(message["id"])
            if found is None:
                continue
            if "code" in message:
                if not found[2].done():
                    found[2].set_result(int(message["code"]))
            else:
                await found[1](message["stream"], message["line"])
        if self.online.get(rank) is link:
            self._lost(rank)
            await self.changed.notify()

    def _lost(self, rank: int) -> None:
        self.online.pop(rank, None)
        self.log(4, f"rank {rank} ({self.members[rank].host}) is offline")
        for where, _, ended in self.running.values():
            if where == rank and not ended.done():
                ended.set_exception(ConnectionError(f"lost contact with rank {rank}"))

    async def execute(
        self, id_: str, rank: int, words: list[str], env: dict[str, str], cwd: str, send_line: SendLine
    ) -> int:
        """One process on a rank.  Raises ConnectionError if the rank is not there, or goes."""
        if rank == 0:
            local = {**os.environ, **env, "FLUX_URI": self.broker.attrs["local-uri"]}
            return await self.broker.processes.run(id_, words, local, cwd, send_line)
        if rank not in self.online:
            raise ConnectionError("No route to host")
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.running[id_] = (rank, send_line, ended)
        try:
            await self.online[rank].send(do="run", id=id_, words=words, env=env, cwd=cwd)
            return await ended
        finally:
            del self.running[id_]

    async def kill(self, prefix: str, number: int) -> None:
        self.broker.processes.kill(prefix, number)
        for link in list(self.online.values()):
            with contextlib.suppress(ConnectionError, OSError):
                await link.send(do="kill", id=prefix, signal=number)

    # --- jobs --------------------------------------------------------------------------------------------

    def queue(self, scope: str) -> Queue:
        return self.queues.get(scope) or self.queues[""]

    async def submit(self, scope: str, spec: dict[str, Any]) -> Job:
        """Raises UnsatisfiableError."""
        queue = self.queue(scope)
        queue.check(spec)
        self.numbers += 1
        job = Job(self.numbers, spec, scope)
        queue.jobs.append(job)
        await self.changed.notify()
        return job

    async def _schedule(self) -> None:
        """Starts what can start, whenever something has changed."""
        tasks: set[asyncio.Task[None]] = set()
        while True:
            for queue in list(self.queues.values()):
                while (job := queue.next()) is not None:
                    task = asyncio.ensure_future(self._job(queue, job))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
            async with self.changed.condition:
                await self.changed.condition.wait()

    async def _job(self, queue: Queue, job: Job) -> None:
        spec = job.spec
        common = {
            **spec["env"],
            "FLUX_JOB_ID": job.id,
            "FLUX_JOB_SIZE": str(len(job.tasks)),
            "FLUX_JOB_NNODES": str(len(job.ranks)),
            "FLUX_JOB_CC": "1",
        }
        if spec["batch"]:
            share = {rank: job.tasks.count(rank) * int(spec["cores"]) for rank in job.ranks}
            self.queues[job.id] = Queue(share, self.usable)
            common |= {"FLUX_STANDIN_SCOPE": job.id}
        tasks = [0] if spec["batch"] else range(len(job.tasks))
        await asyncio.gather(*(self._task(job, task, common) for task in tasks))
        queue.done(job)
        self.queues.pop(job.id, None) if spec["batch"] else None
        _to_files(job)
        await self.changed.notify()

    async def _task(self, job: Job, task: int, common: dict[str, str]) -> None:
        async def send_line(stream: str, line: str) -> None:
            job.lines.append((stream, task, line))
            await self.changed.notify()

        rank = job.tasks[task]
        env = {
            **common,
            "FLUX_TASK_RANK": str(task),
            "FLUX_TASK_LOCAL_ID": str(job.tasks[:task].count(rank)),
        }
        try:
            code = await self.execute(
                f"{job.id}.{task}", rank, job.spec["argv"], env, job.spec["cwd"], send_line
            )
            job.codes[task] = code
        except (ConnectionError, OSError) as error:
            job.exception = job.exception or f"node failure: {error}"
            await self.kill(f"{job.id}.", signal.SIGKILL)

    async def cancel(self, job: Job) -> None:
        job.exception = job.exception or "cancel"
        if job.state == "SCHED":
            job.state, job.ended = "INACTIVE", time.time()
            await self.changed.notify()
        elif job.active:
            await self.kill(f"{job.id}.", signal.SIGTERM)

    # --- the instance ------------------------------------------------------------------------------------

    async def run(self, ended: asyncio.Future[int]) -> int:
        attrs = self.broker.attrs
        socket_path = attrs["local-uri"].removeprefix("local://")
        Path(socket_path).unlink(missing_ok=True)
        servers = [await asyncio.start_unix_server(self._client, socket_path, limit=LIMIT)]
        if self.size > 1:
            host, port = config.bind_address(self.members[0])
            servers.append(await asyncio.start_server(self._accept, host, port, limit=LIMIT))
        scheduling = asyncio.ensure_future(self._schedule())
        life = asyncio.ensure_future(self._live())
        await asyncio.wait({life, ended}, return_when=asyncio.FIRST_COMPLETED)
        code = life.result() if life.done() else ended.result()
        if self.broker.state == "init":
            code = (
                1  # measured: rc1 is hung up, rc3 follows, and the state is dumped as if it had been restored
            )
        self.broker.state = "shutdown"
        life.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await life
        await content.scripts("rc3.d", attrs["local-uri"])
        scheduling.cancel()
        await self._end()
        for server in servers:
            server.close()
        Path(socket_path).unlink(missing_ok=True)
        return code

    async def _live(self) -> int:
        attrs = self.broker.attrs
        text = attrs.get("broker.quorum") or str(self.size)
        if not text.isdecimal() or not 0 < int(text) <= self.size:
            self.log(0, f"Error parsing broker.quorum attribute {text!r}")
            return 1
        if attrs.get("tbon.connect_timeout"):
            config.duration(attrs["tbon.connect_timeout"])
        quorum = int(text)
        if not await self._rc1():
            return 1
        self.broker.state = "quorum"
        self.loaded.set()
        await self.changed.until(lambda: 1 + len(self.online) >= quorum)
        self.log(6, f"quorum-full: {1 + len(self.online)} of {self.size} ranks are online")
        self.broker.state = "run"
        for link in list(self.online.values()):
            with contextlib.suppress(ConnectionError, OSError):
                await link.send(do="state", state="run")
        if "broker.rc2_none" in attrs:
            await self.over.wait()
            return 0
        return await self._program()

    async def _rc1(self) -> bool:
        """Modules are loaded, then the archive, then the scripts beside.  False: one of them failed."""
        await asyncio.sleep(float(os.environ.get("FLUX_STANDIN_RC1") or _RC1))
        try:
            content.restore(self, self.broker.attrs.get("content.restore", ""))
        except (OSError, ValueError, KeyError, tarfile.TarError) as error:
            self.log(3, f"rc1.0: flux restore: {error}")
            return False
        return await content.scripts("rc1.d", self.broker.attrs["local-uri"])

    async def _program(self) -> int:
        """Runs the initial program; a single argument is a command line for the shell."""
        words = self.broker.program
        if not words:
            words = [os.environ.get("SHELL") or "/bin/bash"]
        elif len(words) == 1:
            words = ["/bin/sh", "-c", words[0]]
        env = {**os.environ, "FLUX_URI": self.broker.attrs["local-uri"]}
        try:
            process = await asyncio.create_subprocess_exec(*words, env=env)
        except OSError as error:
            print(f"flux-broker: {words[0]}: {error.strerror}", file=sys.stderr, flush=True)
            return 127
        try:
            waited = asyncio.ensure_future(process.wait())
            requested = asyncio.ensure_future(self.over.wait())
            await asyncio.wait({waited, requested}, return_when=asyncio.FIRST_COMPLETED)
            if waited.done():
                if code := code_of(waited.result()):
                    self.log(3, f"rc2.0: {words[0]} Exited (rc={code})")
                return code
            process.send_signal(signal.SIGHUP)
            await waited
            return 0
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGHUP)
                await asyncio.wait_for(process.wait(), 5)

    async def _end(self) -> None:
        """Jobs are cancelled, the archive is written, the other ranks are sent home."""
        for queue in self.queues.values():
            for job in queue.jobs:
                if job.active:
                    await self.cancel(job)
        self.broker.processes.kill("", signal.SIGKILL)
        if path := self.broker.attrs.get("content.dump"):
            content.dump(self, path)
        for link in list(self.online.values()):
            with contextlib.suppress(ConnectionError, OSError):
                await link.send(do="shutdown")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                await self.changed.until(lambda: not self.online)

    async def _client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rank: int = 0
    ) -> None:
        from .service import serve  # it knows this class

        await serve(self, Link(reader, writer), rank)

    @property
    def user(self) -> str:
        try:
            return pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            return str(os.getuid())

    def hosts(self, ranks: list[int]) -> str:
        return hostlist.folded(self.members[rank].host for rank in ranks)


def _to_files(job: Job) -> None:
    """--output and --error, written where rank 0 runs."""
    for stream, option in (("stdout", "output"), ("stderr", "error")):
        path = str(job.spec.get(option) or "")
        if option == "error" and not path:
            continue
        wanted = [
            line
            for name, _, line in job.lines
            if name == stream or (option == "output" and not job.spec.get("error"))
        ]
        if path:
            with contextlib.suppress(OSError):
                Path(path.replace("{{id}}", job.id)).write_text("".join(wanted))
