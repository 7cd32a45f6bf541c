"""The operator as a process of its own, which a test may kill or pause."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

import aiohttp

from tests.waiting import LIMIT, free_port

ROOT = Path(__file__).resolve().parents[3]


class Operator:
    def __init__(
        self,
        kubeconfig: Path,
        namespace: str,
        log: Path,
        *,
        enable: str = "jobs",
        settings: dict[str, str] | None = None,
        variables: dict[str, str] | None = None,
        webhook_url: str = "",
        inactivity: float | None = None,
    ) -> None:
        """Starts it.

        `settings` are FOURNOS_… variables without that, `variables` others; `inactivity` see `impatient`.
        """
        self.log = log
        self._port = free_port()
        own = ("FOURNOS_", "HEARTH_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        environment |= {
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
            "FOURNOS_NAMESPACE": namespace,
            "FOURNOS_SECRETS_NAMESPACE": f"{namespace}-secrets",
            "FOURNOS_RESOLVE_JOB_TEMPLATE": "dev/mock-resolve/resolve_job.yaml",
            "FOURNOS_RETRY_BACKOFF_SEC": "0.2",
            "KUBECONFIG": str(kubeconfig),
        }
        environment |= {f"FOURNOS_{name}": value for name, value in (settings or {}).items()}
        environment |= variables or {}
        if inactivity is None:
            words = ["-m", "fournos", "run", "--enable", enable, "--health-port", str(self._port)]
            words += ["--webhook-url", webhook_url] if webhook_url else []
        else:
            words = ["-m", "tests.integration.jobs.impatient", str(inactivity), str(self._port)]
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, *words], cwd=ROOT, env=environment, stdout=out, stderr=out
            )

    async def ready(self) -> Operator:
        """Returns when its caches are complete; it may wait for the lease still, unless it is a recorder."""
        return await self._answering(lambda status, text: status == HTTPStatus.OK)

    async def unready(self, reason: str) -> Operator:
        """Returns when it is not ready for this reason."""
        return await self._answering(
            lambda status, text: status == HTTPStatus.SERVICE_UNAVAILABLE and reason in text
        )

    async def _answering(self, wanted: Callable[[int, str], bool]) -> Operator:
        async with asyncio.timeout(LIMIT), aiohttp.ClientSession() as session:
            while True:
                assert self.running, f"the operator ended by itself:\n{self.tail()}"
                try:
                    async with session.get(f"http://127.0.0.1:{self._port}/readyz") as answer:
                        if wanted(answer.status, await answer.text()):
                            return self
                except aiohttp.ClientError:
                    pass  # does not listen yet
                await asyncio.sleep(0.05)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """kill -9; nothing if it has ended."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ends it as a Deployment does: it gives its lease back."""
        self._process.terminate()
        self._process.wait()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    async def ended(self, *, limit: float = LIMIT) -> int:
        """Its exit code.  Raises TimeoutError."""
        async with asyncio.timeout(limit):
            while self.running:  # noqa: ASYNC110 - a process tells nobody
                await asyncio.sleep(0.05)
        return int(self._process.returncode)

    def tail(self, lines: int = 25) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
