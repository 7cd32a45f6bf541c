"""A broker: boots by its configuration, links up with rank 0, ends as flux's brokers do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import config
from .leader import Leader
from .options import die, parse, table
from .procs import Processes
from .wire import LIMIT, Link, RefusedError, certificate, dial, introduce

OPTIONS = table("v,verbose S,setattr= c,config-path= config= k,k-ary=")
_PAUSE = 0.5


class Broker:
    def __init__(self, attrs: dict[str, str], path: str, program: Sequence[str]) -> None:
        self.attrs = {"tbon.fanout": "32", "log-stderr-level": "3", **attrs}
        self.config = config.load(path)
        name = os.environ.get("FLUX_FAKE_HOSTNAME") or socket.gethostname()
        self.boot = config.boot(self.config, hostname=name)
        self.program = list(program)
        self.uuid = str(uuid.uuid4())
        self.state = "init" if self.boot.rank == 0 else "join"
        """As `flux uptime` shows it: join, init, quorum, run, shutdown."""
        self.processes = Processes()
        size = len(self.boot.members)
        self.attrs |= {"rank": str(self.boot.rank), "size": str(size), "config.path": path}
        self.attrs["instance-level"] = "0"
        self.attrs |= {"hostlist": ",".join(member.host for member in self.boot.members)}
        if "rundir" not in self.attrs:
            self.attrs["rundir"] = f"/tmp/flux-{uuid.uuid4().hex[:6]}"
        Path(self.attrs["rundir"]).mkdir(parents=True, exist_ok=True)
        self.attrs.setdefault("local-uri", f"local://{self.attrs['rundir']}/local-{self.boot.rank}")
        self.timeout = config.duration(self.attrs.get("tbon.connect_timeout") or "30s")
        self.secret = certificate(self.boot.certificate) if size > 1 else b""
        if "statedir" in self.attrs and not Path(self.attrs["statedir"]).is_dir():
            raise config.ConfigError(f"statedir {self.attrs['statedir']} does not exist")

    def log(self, level: int, message: str) -> None:
        if level <= int(self.attrs["log-stderr-level"]):
            word = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")[level]
            print(f"broker.{word}[{self.boot.rank}]: {message}", file=sys.stderr, flush=True)

    def debug(self, message: str) -> None:
        """What tbon.zmqdebug shows."""
        if self.attrs.get("tbon.zmqdebug") == "1":
            print(f"broker.debug[{self.boot.rank}]: {message}", file=sys.stderr, flush=True)

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[int] = loop.create_future()

        def stop(number: int) -> None:
            """As measured: a stopped broker ends with code 0, except a lead that runs a program."""
            self.log(6, f"exiting due to signal {signal.Signals(number).name}")
            runs = self.boot.rank == 0 and "broker.rc2_none" not in self.attrs
            if not ended.done():
                ended.set_result(128 + signal.SIGHUP if runs else 0)

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)
        if self.boot.rank == 0:
            return await Leader(self).run(ended)
        return await self._follow(ended)

    # --- ranks above 0 -----------------------------------------------------------------------------------

    async def _follow(self, ended: asyncio.Future[int]) -> int:
        socket_path = self.attrs["local-uri"].removeprefix("local://")
        Path(socket_path).unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._relay, socket_path, limit=LIMIT)
        work = asyncio.ensure_future(self._serve())
        done, _ = await asyncio.wait({work, ended}, return_when=asyncio.FIRST_COMPLETED)
        code = work.result() if work in done else ended.result()
        self.processes.kill("", signal.SIGKILL)
        work.cancel()
        server.close()
        Path(socket_path).unlink(missing_ok=True)
        return code

    async def _connect(self, **greeting: Any) -> tuple[Link, dict[str, Any]]:
        """Tries until rank 0 answers: its name may not be known yet, nor the pod there."""
        host, port = self.boot.members[0].address
        where = f"parent sockevent tcp://{host}:{port}"
        while True:
            link = None
            try:
                link = await dial(host, port, self.timeout)
                self.debug(f"{where} connected")
                answer = await asyncio.wait_for(
                    introduce(link, self.secret, rank=self.boot.rank, uuid=self.uuid, **greeting),
                    self.timeout,
                )
                self.debug(f"{where} handshake succeeded")
                return link, answer
            except RefusedError as error:
                self.debug(f"{where} handshake failed: {error}")
                if "rank" in str(error):
                    raise
            except (OSError, TimeoutError, ConnectionError) as error:
                self.debug(f"{where} connect retried: {error}")
            if link is not None:
                link.close()
            await asyncio.sleep(_PAUSE)

    async def _serve(self) -> int:
        """Executes the requests of rank 0 until rank 0 announces the end."""
        parent = ""
        while True:
            link, answer = await self._connect(kind="broker", pid=os.getpid())
            if parent and answer["uuid"] != parent:
                # Its jobs and ours are of different instances: the only way is to begin again.
                self.log(2, "parent broker has restarted: exiting")
                return 1
            if not parent:
                self.log(6, f"online, rank {self.boot.rank} of {self.attrs['size']}")
            self.state = "quorum"
            parent = answer["uuid"]
            tasks: set[asyncio.Task[None]] = set()
            while (message := await link.receive()) is not None:
                if message["do"] == "state":
                    self.state = message["state"]
                    continue
                if message["do"] == "shutdown":
                    self.state = "shutdown"
                    self.log(6, "shutdown: rank 0 is going")
                    link.close()
                    return 0
                if message["do"] == "disconnect":
                    self.log(2, "disconnected by rank 0: exiting")
                    link.close()
                    return 1
                if message["do"] == "kill":
                    self.processes.kill(message["id"], message["signal"])
                elif message["do"] == "run":
                    task = asyncio.ensure_future(self._task(link, message))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
            self.log(4, "lost contact with rank 0, trying again")
            self.processes.kill("", signal.SIGKILL)
            await asyncio.sleep(_PAUSE)

    async def _task(self, link: Link, message: dict[str, Any]) -> None:
        async def send_line(stream: str, line: str) -> None:
            await link.send(id=message["id"], stream=stream, line=line)

        env = {**os.environ, **message["env"], "FLUX_URI": self.attrs["local-uri"]}
        with contextlib.suppress(ConnectionError, OSError):
            code = await self.processes.run(message["id"], message["words"], env, message["cwd"], send_line)
            await link.send(id=message["id"], code=code)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relays the requests of a command to rank 0, but for those that this broker itself answers."""
        first = await reader.readline()
        if b'"op": "state"' in first:
            answer = {"end": True, "state": self.state, "size": int(self.attrs["size"])}
            writer.write(json.dumps(answer).encode() + b"\n")
            writer.close()
            return
        link, _ = await self._connect(kind="client")

        link.writer.write(first)

        async def pipe(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError, OSError):
                while data := await source.read(65536):
                    target.write(data)
                    await target.drain()
            target.close()

        await asyncio.gather(pipe(reader, link.writer), pipe(link.reader, writer))


def main(words: list[str]) -> int:
    """flux broker [-Sattr=value …] [--config-path=PATH] [PROGRAM …]"""
    parsed = parse("broker", words, OPTIONS)
    attrs = {}
    for setting in parsed.all("setattr"):
        name, _, value = setting.partition("=")
        if name not in config.ATTRIBUTES:
            die("broker", f"setattr {setting}: no such attribute")
        attrs[name] = value
    path = parsed.get("config-path") or parsed.get("config") or os.environ.get("FLUX_CONF_DIR", "")
    try:
        broker = Broker(attrs, path, parsed.rest)
    except (config.ConfigError, ValueError) as error:
        if int(attrs.get("log-stderr-level", "3")) < 3:
            return 1
        die("broker", str(error))
    interactive = broker.boot.rank == 0 and not parsed.rest and "broker.rc2_none" not in attrs
    if interactive and not sys.stdin.isatty():
        die("broker", "stdin is not a tty - can't run interactive shell")
    start = time.monotonic()
    code = asyncio.run(broker.run())
    broker.log(6, f"exit {code} after {time.monotonic() - start:.1f}s")
    return code
