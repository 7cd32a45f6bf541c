"""The program `fournos`, as a process of its own, against a real API server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.integration.conftest import Server
from tests.waiting import LIMIT

SOURCES = Path(__file__).parents[3] / "src"
MANIFEST = yaml.safe_dump(
    {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosJob",
        "metadata": {"generateName": "nightly-"},
        "spec": {"cluster": "cluster-1", "executionEngine": {"forge": {"project": "llmd"}}},
    }
)


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Program:
    kubeconfig: Path
    namespace: str

    @asynccontextmanager
    async def start(self, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "fournos",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={
                **kept,
                "PYTHONPATH": str(SOURCES),
                "KUBECONFIG": str(self.kubeconfig),
                "FOURNOS_NAMESPACE": self.namespace,
            },
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def __call__(self, *arguments: str, stdin: str = "") -> Answer:
        async with asyncio.timeout(LIMIT), self.start(*arguments) as process:
            out, err = await process.communicate(stdin.encode())
            assert process.returncode is not None
            return Answer(process.returncode, out.decode(), err.decode())


@pytest.fixture
def fournos(kubeconfig: Path, crds: None, namespace: str) -> Program:
    return Program(kubeconfig, namespace)


async def submitted(fournos: Program) -> str:
    # The server has the clusters of other tests, and not this one.
    answer = await fournos("submit", "--force", "-f", "-", "-o", "name", stdin=MANIFEST)
    assert answer.code == 0, answer.err
    return answer.out.strip().removeprefix("fournosjob.fournos.dev/")


async def set_phase(server: Server, namespace: str, name: str, phase: str) -> None:
    path = f"/apis/fournos.dev/v1/namespaces/{namespace}/fournosjobs/{name}/status"
    status, answer = await server.patch(path, {"status": {"phase": phase, "message": "set by a test"}})
    assert status == 200, answer


async def test_from_submitting_to_deleting(fournos: Program, server: Server) -> None:
    dry = await fournos("submit", "--force", "-f", "-", "--dry-run", "server", stdin=MANIFEST)
    assert (dry.code, yaml.safe_load(dry.out)["spec"]["pipeline"]) == (0, "fournos-full")
    nothing = await fournos("list")
    assert (nothing.code, nothing.out) == (0, "")
    assert "No jobs" in nothing.err

    name = await submitted(fournos)
    listed = await fournos("list")
    assert listed.out.splitlines()[1].split()[:3] == [name, "New", "cluster-1"]
    shown = await fournos("get", "@last", "-o", "json")
    assert json.loads(shown.out)["metadata"]["name"] == name
    assert "fournos explain" in (await fournos("get", name)).out
    assert "No operator has looked" in (await fournos("explain", name)).out
    assert (await fournos("logs", name)).code == 5

    assert (await fournos("stop", name)).code == 0
    assert json.loads((await fournos("get", name, "-o", "json")).out)["spec"]["shutdown"] == "Stop"
    assert (await fournos("stop", name, "--now")).code == 0
    await set_phase(server, fournos.namespace, name, "Stopped")
    late = await fournos("stop", name)
    assert late.code == 7
    assert "has ended already: Stopped" in late.err
    assert (await fournos("wait", name)).code == 3
    assert (await fournos("delete", name)).out == f"{name} deleted\n"
    assert (await fournos("get", name)).code == 5


async def test_watching_a_job_to_its_end(fournos: Program, server: Server) -> None:
    name = await submitted(fournos)
    async with asyncio.timeout(LIMIT), fournos.start("watch", name) as process:
        assert process.stdout is not None
        assert b"New" in await process.stdout.readline()
        await set_phase(server, fournos.namespace, name, "Pending")
        assert b"Pending  set by a test" in await process.stdout.readline()
        await set_phase(server, fournos.namespace, name, "Failed")
        out, _ = await process.communicate()
        assert out.decode().splitlines()[-1] == f"{name} Failed: set by a test"
        assert process.returncode == 1


async def test_waiting_in_vain_and_for_what_is_deleted(fournos: Program) -> None:
    name = await submitted(fournos)
    assert (await fournos("wait", name, "--timeout", "500ms")).code == 4
    async with asyncio.timeout(LIMIT), fournos.start("watch", name) as process:
        assert process.stdout is not None
        await process.stdout.readline()
        assert (await fournos("delete", name)).code == 0
        await process.wait()
        assert process.returncode == 5


async def test_the_server_refuses_what_the_program_cannot_know(fournos: Program) -> None:
    first = await fournos("submit", "--force", "-f", "-", "--name", "one", stdin=MANIFEST)
    assert first.code == 0
    again = await fournos("submit", "--force", "-f", "-", "--name", "one", stdin=MANIFEST)
    assert again.code == 2
    assert "already exists" in again.err
    upper = await fournos("submit", "--force", "-f", "-", "--name", "Upper", stdin=MANIFEST)
    assert upper.code == 2
    assert "metadata.name" in upper.err


async def test_no_way_to_the_server(fournos: Program, tmp_path: Path) -> None:
    missing = await fournos("list", "--kubeconfig", str(tmp_path / "none.yaml"))
    assert missing.code == 6
    config = yaml.safe_load(fournos.kubeconfig.read_text())
    for cluster in config["clusters"]:
        cluster["cluster"]["server"] = "https://127.0.0.1:1"
    dead = tmp_path / "dead.yaml"
    dead.write_text(yaml.safe_dump(config))
    answer = await fournos("list", "--kubeconfig", str(dead))
    assert answer.code == 6
    assert "no answer from the API server" in answer.err
    assert "Traceback" not in missing.err + answer.err
