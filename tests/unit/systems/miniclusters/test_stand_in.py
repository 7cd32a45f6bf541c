"""The stand-in `flux` over real sockets: what the tests on real pods rely on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tarfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.waiting import free_port, until

ROOT = Path(__file__).resolve().parents[4]
CERTIFICATE = 'curve\n    public-key = "{0}"\n    secret-key = "{0}"\n'


class Cluster:
    """Brokers of one configuration on the loopback interface."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder, self.port = folder, free_port()
        self.brokers: list[Process] = []
        flux = folder / "bin" / "flux"
        flux.parent.mkdir()
        flux.write_text(
            f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
            "from tests.fakes.flux.main import main\nsys.exit(main(sys.argv[1:]))\n"
        )
        flux.chmod(0o755)
        self.flux = str(flux)
        self.certificate("a" * 40)
        (folder / "broker.toml").write_text(
            f'[bootstrap]\ncurve_cert = "{folder}/curve.cert"\ndefault_port = {self.port}\n'
            'default_bind = "tcp://127.0.0.1:%p"\ndefault_connect = "tcp://127.0.0.1:%p"\n'
            f'hosts = [{{ host = "flux-[0-{size - 1}]" }}]\n'
        )

    def certificate(self, key: str) -> None:
        file = self.folder / "curve.cert"
        file.write_text(CERTIFICATE.format(key))
        file.chmod(0o600)

    async def start(self, rank: int, *words: str, attrs: tuple[str, ...] = ()) -> Process:
        run = self.folder / f"run-{rank}"
        command = [self.flux, "start", "-o", "--config", str(self.folder / "broker.toml")]
        command += [f"-Srundir={run}", f"-Slocal-uri=local://{run}/local", "-Stbon.connect_timeout=60s"]
        command += [f"-S{attr}" for attr in attrs]
        path = f"{Path(self.flux).parent}:{os.environ['PATH']}"
        env = {**os.environ, "FLUX_FAKE_HOSTNAME": f"flux-{rank}", "PATH": path}
        broker = await asyncio.create_subprocess_exec(*command, *words, env=env, stdout=PIPE, stderr=PIPE)
        self.brokers.append(broker)
        return broker

    async def proxy(self, rank: int, *words: str) -> tuple[int, str]:
        uri = f"local://{self.folder}/run-{rank}/local"
        path = f"{Path(self.flux).parent}:{os.environ['PATH']}"
        env = {**os.environ, "PATH": path}
        process = await asyncio.create_subprocess_exec(
            self.flux, "proxy", uri, *words, env=env, stdout=PIPE, stderr=PIPE
        )
        out, err = await asyncio.wait_for(process.communicate(), 120)
        assert process.returncode is not None
        return process.returncode, (out + err).decode()

    async def end(self) -> None:
        for broker in self.brokers:
            if broker.returncode is None:
                broker.kill()
            await broker.communicate()


@pytest.fixture
async def cluster(tmp_path: Path):  # type: ignore[no-untyped-def]
    found = Cluster(tmp_path, 4)
    yield found
    await found.end()


async def _ended(broker: Process) -> tuple[int, str, str]:
    out, err = await asyncio.wait_for(broker.communicate(), 120)
    assert broker.returncode is not None
    return broker.returncode, out.decode(), err.decode()


STAY = "exec sleep 60 >/dev/null 2>&1"
"""Holds no pipe of this test open when its broker is killed."""
SUBMIT = ("flux", "submit", "-N", "4", "-n4", "--quiet", "--watch")


async def test_four_ranks_print_hello_and_all_end(cluster: Cluster) -> None:
    workers = [await cluster.start(rank) for rank in (3, 2, 1)]
    lead = await cluster.start(0, *SUBMIT, "echo", "hello", "world")
    assert (await _ended(lead))[:2] == (0, "hello world\n" * 4)
    assert [(await _ended(worker))[0] for worker in workers] == [0, 0, 0]


async def test_the_exit_code_is_the_task_s(cluster: Cluster) -> None:
    workers = [await cluster.start(rank) for rank in (1, 2, 3)]
    lead = await cluster.start(0, *SUBMIT, "sh", "-c", "exit $((FLUX_TASK_RANK + 4))")
    assert (await _ended(lead))[0] == 7
    assert [(await _ended(worker))[0] for worker in workers] == [0, 0, 0]


async def test_a_quorum_starts_without_the_others_and_a_drained_rank_gets_no_task(cluster: Cluster) -> None:
    lead = await cluster.start(0, STAY, attrs=("broker.quorum=2",))
    await cluster.start(2)
    await _until(cluster, 0, "full")
    code, text = await cluster.proxy(2, "flux", "resource", "list", "-o", "{state} {nnodes} {ranks}")
    assert (code, text) == (0, "free 2 0,2\nallocated 0 \ndown 2 1,3\n")
    assert await cluster.proxy(2, "flux", "resource", "drain", "2", "going") == (0, "")
    code, text = await cluster.proxy(0, "flux", "run", "-n1", "sh", "-c", "echo $FLUX_FAKE_HOSTNAME")
    assert (code, text) == (0, "flux-0\n")
    code, text = await cluster.proxy(0, "flux", "exec", "-r", "1", "hostname")
    assert code == 68 and "No route to host" in text
    lead.send_signal(signal.SIGTERM)
    assert (await _ended(lead))[0] == 128 + signal.SIGHUP


async def test_brokers_that_are_stopped_end_as_flux_does(cluster: Cluster) -> None:
    """Measured with flux-core: only a lead with a program does not end with 0."""
    lead = await cluster.start(0, attrs=("broker.quorum=1", "broker.rc2_none"))
    worker, other = [await cluster.start(rank) for rank in (1, 2)]
    await _until(cluster, 0, "1 flux-1: full")
    await _until(cluster, 0, "2 flux-2: full")
    worker.send_signal(signal.SIGTERM)
    assert (await _ended(worker))[0] == 0
    lead.send_signal(signal.SIGTERM)
    assert [(await _ended(broker))[0] for broker in (lead, other)] == [0, 0]


@pytest.mark.parametrize("option", ["--config-path=/nowhere", "-Srundir=/nowhere"])
async def test_before_0_69_options_go_through_o(
    cluster: Cluster, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLUX_STANDIN_VERSION", "0.61.0")

    async def start(word: str) -> tuple[int, str]:
        broker = await asyncio.create_subprocess_exec(
            cluster.flux, "start", "-X", word, "true", stdout=PIPE, stderr=PIPE
        )
        code, _, err = await _ended(broker)
        return code, err

    code, err = await start(option)
    assert code and "flux-start: " in err
    code, err = await start(f"-o{option}")
    assert code == 0 and option in err


async def test_a_low_log_level_hides_why_a_broker_ends(cluster: Cluster) -> None:
    (cluster.folder / "curve.cert").chmod(0o644)
    for level, message in (("0", False), ("3", True)):
        code, _, err = await _ended(await cluster.start(1, attrs=(f"log-stderr-level={level}",)))
        assert code == 1 and ("readable by other than owner" in err) is message


async def test_another_certificate_is_not_let_in(cluster: Cluster) -> None:
    lead = await cluster.start(0, "true", attrs=("broker.quorum=2",))
    await _until(cluster, 0, "flux-1: offline")
    cluster.certificate("b" * 40)
    await cluster.start(1)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.shield(lead.wait()), 2)
    cluster.certificate("a" * 40)


async def test_a_worker_waits_for_a_lead_that_comes_back_and_begins_again(cluster: Cluster) -> None:
    worker = await cluster.start(1)
    first = await cluster.start(0, STAY, attrs=("broker.quorum=2",))
    await _until(cluster, 0, "1 flux-1: full")
    first.kill()
    await first.communicate()
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.shield(worker.wait()), 1)
    second = await cluster.start(0, STAY, attrs=("broker.quorum=1",))
    assert (await _ended(worker))[0] == 1
    second.kill()


async def _until(cluster: Cluster, rank: int, text: str) -> None:
    async def shown() -> bool:
        return text in (await cluster.proxy(rank, "flux", "overlay", "status"))[1]

    await until(shown, f"flux overlay status does not show {text!r}")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["submit", "--nope", "true"], "unrecognized option '--nope'"),
        (["start", "-Sno.such=1", "true"], "no such attribute"),
        (["mini", "submit", "true"], "is not a flux command"),
        (["broker"], "stdin is not a tty"),
        (["batch", "-v", "script"], "invalid option -- 'v'"),
        (["R", "encode"], "must specify"),
    ],
)
async def test_what_it_does_not_know_it_refuses(cluster: Cluster, words: list[str], expected: str) -> None:
    process = await asyncio.create_subprocess_exec(
        cluster.flux, *words, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=PIPE
    )
    code, _, err = await _ended(process)
    assert code and expected in err


async def test_a_worker_that_is_taken_away_finds_itself_and_comes_back(cluster: Cluster) -> None:
    """With the commands of the product's own scripts."""
    await cluster.start(0, STAY, attrs=("broker.quorum=1",))
    await cluster.start(3)
    await _until(cluster, 0, "3 flux-3: full")
    assert await cluster.proxy(3, "flux", "getattr", "rank") == (0, "3\n")
    assert (await cluster.proxy(3, "flux", "resource", "drain", "3", "taken away"))[0] == 0
    assert await cluster.proxy(3, "flux", "resource", "drain", "-n", "-o", "{ranks}") == (0, "3\n")
    assert await cluster.proxy(0, "flux", "jobs", "-A", "-n", "--filter=running", "-o", "{ranks}") == (0, "")
    assert (await cluster.proxy(0, "flux", "submit", "sleep", "20"))[0] == 0
    assert await cluster.proxy(0, "flux", "jobs", "-A", "-n", "--filter=running", "-o", "{ranks}") == (
        0,
        "0\n",
    )
    assert (await cluster.proxy(3, "flux", "resource", "undrain", "flux-3"))[0] == 0
    assert await cluster.proxy(3, "flux", "resource", "drain", "-n", "-o", "{ranks}") == (0, "")


async def _state(cluster: Cluster, rank: int) -> str:
    code, text = await cluster.proxy(rank, "flux", "uptime")
    return text.split()[1] if code == 0 else ""


async def test_a_socket_is_there_long_before_its_broker_has_joined(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured: `flux uptime` shows join, init and quorum, and modules answer nothing before rc1."""
    worker = cluster.folder / "run-1" / "local"
    await cluster.start(1)
    await until(async_exists(worker), "no socket")
    environment = {**os.environ, "FLUX_URI": f"local://{worker}"}
    asked = await asyncio.create_subprocess_exec(cluster.flux, "uptime", env=environment, stdout=PIPE)
    assert (await asked.communicate())[0].decode().split()[1] == "join"
    monkeypatch.setenv("FLUX_STANDIN_RC1", "600")
    first = await cluster.start(0, STAY, attrs=("broker.quorum=3",))
    await until(async_exists(cluster.folder / "run-0" / "local"), "no socket")
    assert await _state(cluster, 0) == "init"
    assert "Function not implemented" in (await cluster.proxy(0, "flux", "jobs"))[1]
    first.kill()
    await first.communicate()
    monkeypatch.delenv("FLUX_STANDIN_RC1")
    await cluster.start(0, STAY, attrs=("broker.quorum=3",))
    await _until(cluster, 0, "1 flux-1: full")
    assert [await _state(cluster, rank) for rank in (0, 1)] == ["quorum", "quorum"]
    await cluster.start(2)
    await _until(cluster, 0, "2 flux-2: full")

    async def all_run() -> bool:
        return [await _state(cluster, rank) for rank in (0, 1, 2)] == ["run"] * 3

    await until(all_run, "not all run")


def async_exists(path: Path) -> Callable[[], Awaitable[bool]]:
    async def exists() -> bool:
        return await asyncio.to_thread(path.exists)

    return exists


async def test_a_lead_that_is_stopped_in_rc1_dumps_an_empty_state(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured with 0.88: the good archive was lost, because it had the same name."""
    path = cluster.folder / "archive.tar"
    first = await cluster.start(0, "flux submit echo hello; true", attrs=("broker.quorum=1",))
    assert (await _ended(first))[0] == 0
    attrs = ("broker.quorum=1", f"content.dump={path}", f"content.restore={path}")
    kept = await cluster.start(0, "flux run echo hello", attrs=attrs)
    assert (await _ended(kept))[0] == 0
    monkeypatch.setenv("FLUX_STANDIN_RC1", "60")
    stopped = await cluster.start(0, STAY, attrs=attrs)
    await until(async_exists(cluster.folder / "run-0" / "local"), "no socket")
    stopped.send_signal(signal.SIGTERM)
    assert (await _ended(stopped))[0] == 1
    with tarfile.open(path) as archive:
        member = archive.extractfile("stand-in/state.json")
        assert member is not None and json.loads(member.read())["jobs"] == []


async def test_scripts_of_rc1_and_rc3_are_run(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for level in ("rc1.d", "rc3.d"):
        script = cluster.folder / "rc" / level / "one"
        script.parent.mkdir(parents=True)
        script.write_text(f"#!/bin/sh\nflux getattr instance-level >>{cluster.folder}/ran\n")
        script.chmod(0o755)
    monkeypatch.setenv("FLUX_RC_EXTRA", f"/nowhere:{cluster.folder}/rc")
    lead = await cluster.start(
        0, f"cp {cluster.folder}/ran {cluster.folder}/before", attrs=("broker.quorum=1",)
    )
    assert (await _ended(lead))[0] == 0
    assert (cluster.folder / "before").read_text() == "0\n"
    assert (cluster.folder / "ran").read_text() == "0\n0\n"


async def test_running_jobs_are_listed_without_python(cluster: Cluster) -> None:
    """A hidden command of flux-core, 0.61 and 0.88, one JSON object a line."""
    await cluster.start(0, STAY, attrs=("broker.quorum=1",))
    await _until(cluster, 0, "1 flux-1: offline")
    words = ("flux", "job", "list", "--states=running", "--user=all")

    async def runs() -> bool:
        return (await _state(cluster, 0)) == "run"

    await until(runs, "does not run")
    assert await cluster.proxy(0, *words) == (0, "")
    assert (await cluster.proxy(0, "flux", "submit", "sleep", "20"))[0] == 0
    code, text = await cluster.proxy(0, *words)
    assert code == 0 and '"ranks": "0"' in text
