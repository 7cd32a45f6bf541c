"""The synchronous face: the same methods, from any thread, with or without a running loop."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.client import (
    AppWrapper,
    AsyncAppWrapper,
    AsyncClient,
    AsyncCluster,
    AsyncJob,
    AsyncMiniCluster,
    AsyncObject,
    AsyncQueue,
    Client,
    Cluster,
    Job,
    MiniCluster,
    MissingError,
    NotAllowedError,
    Object,
    Queue,
    WaitTimeout,
)
from fournos.client.history import AsyncHistory, History
from fournos.client.synchronous import LOOP
from tests.unit.client.world import NS, SPEC, Api
from tests.waiting import blocking_until

FACES = (
    (Client, AsyncClient),
    (Job, AsyncJob),
    (Cluster, AsyncCluster),
    (Queue, AsyncQueue),
    (AppWrapper, AsyncAppWrapper),
    (MiniCluster, AsyncMiniCluster),
    (Object, AsyncObject),
    (History, AsyncHistory),
)
SOURCES = Path(__file__).parents[3] / "src"


@pytest.fixture
def sync(api: Api) -> Iterator[Client]:
    with Client(api=api, namespace=NS) as client:
        yield client


def public(face: type) -> dict[str, Any]:
    return {name: value for name, value in inspect.getmembers(face) if not name.startswith("_")}


@pytest.mark.parametrize(("face", "core"), FACES)
def test_every_method_is_on_both_sides_with_the_same_parameters(face: type, core: type) -> None:
    attributes = {"namespace", "owner", "repeats"}  # of the core's instances, not of its class
    assert public(face).keys() - attributes == public(core).keys() - attributes
    for name, method in public(core).items():
        if not callable(method):
            assert not callable(public(face)[name]), name
            continue
        mine, own = inspect.signature(public(face)[name]), inspect.signature(method)
        assert [(p.name, p.kind, p.default) for p in mine.parameters.values()] == [
            (p.name, p.kind, p.default) for p in own.parameters.values()
        ], name
        assert public(face)[name].__doc__, name
    assert (
        str(inspect.signature(face.__init__)) == str(inspect.signature(core.__init__)) or face is not Client
    )


@pytest.mark.parametrize(("face", "core"), FACES)
def test_no_method_returns_what_must_be_awaited(face: type, core: type) -> None:
    for name, method in public(face).items():
        assert not inspect.iscoroutinefunction(method), name
        assert not inspect.isasyncgenfunction(method), name


def operate(api: Api, *phases: str, name: str = "one", pause: float = 0.05) -> None:
    """Writes phases from the client's own thread, as the watch events of a server would come."""

    async def write() -> None:
        for phase in phases:
            await asyncio.sleep(pause)
            api.set(name, phase)

    LOOP.run(_started(write()))


_tasks: list[asyncio.Task[None]] = []


async def _started(coroutine: Any) -> None:
    _tasks.append(asyncio.create_task(coroutine))


def test_a_job_from_submitting_to_its_end(sync: Client, api: Api) -> None:
    job = sync.submit(SPEC, name="one")
    assert isinstance(job, Job)
    operate(api, "Pending", "Running", "Succeeded")
    job.wait(timeout=10)
    assert job.succeeded
    assert [event.phase for event in job.watch()] == ["Succeeded"]
    again = job.retry()
    assert isinstance(again, Job)
    assert again.repeats is not None
    assert {one.name for one in sync.jobs()} == {"one", again.name}
    assert isinstance(sync.job("one"), Job)
    with pytest.raises(WaitTimeout):
        again.wait(timeout=0.01)
    with pytest.raises(MissingError):
        sync.job("two")


def test_all_of_a_matrix(sync: Client, api: Api) -> None:
    jobs = sync.submit_matrix(SPEC, {"env.N": ["a", "b"]})
    for job in jobs:
        operate(api, "Succeeded", name=job.name)
    seen: list[tuple[int, int, Job]] = []
    sync.wait_all(jobs, timeout=10, progress=lambda done, of, job: seen.append((done, of, job)))
    assert [(done, of) for done, of, _ in seen] == [(1, 2), (2, 2)]
    assert {job for _, _, job in seen} == set(jobs)


def test_an_iterator_that_is_left_closes_its_watch(sync: Client, api: Api) -> None:
    job = sync.submit(SPEC, name="one")
    events = job.watch()
    assert next(events).phase == "New"
    blocking_until(lambda: api.open[FOURNOS_JOB], "no watch", pause=0.01)
    assert api.open[FOURNOS_JOB] == 1
    events.close()  # type: ignore[attr-defined]
    assert api.open[FOURNOS_JOB] == 0


async def test_within_a_running_loop_as_in_a_notebook(api: Api) -> None:
    with Client(api=api, namespace=NS) as client:
        assert client.submit(SPEC, name="one").phase == "New"


def test_many_threads_at_once(sync: Client) -> None:
    def submit(number: int) -> None:
        sync.submit(SPEC, name=f"job-{number}")

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sync.jobs()) == 20
    assert sum(thread.name == "fournos-client" for thread in threading.enumerate()) == 1


def test_a_call_from_the_clients_own_thread_is_refused(sync: Client) -> None:
    async def wrong() -> None:
        sync.jobs()

    with pytest.raises(RuntimeError, match="use AsyncClient"):
        LOOP.run(wrong())


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A test run in the background inherits that SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_the_call_and_leaves_nothing_behind(sync: Client, api: Api) -> None:
    job = sync.submit(SPEC, name="one")
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        job.wait(timeout=30)
    assert api.open[FOURNOS_JOB] == 0
    assert sync.job("one").phase == "New"  # the client still works


def test_a_program_may_end_with_an_iterator_open() -> None:
    code = (
        "from fournos.client import Client\n"
        "from tests.unit.client.world import NS, SPEC, Api\n"
        "events = Client(api=Api(), namespace=NS).submit(SPEC, name='one').watch()\n"
        "print(next(events).phase)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=SOURCES.parent,
        env={**os.environ, "PYTHONPATH": f"{SOURCES}{os.pathsep}{SOURCES.parent}"},
        check=True,
    )
    assert (done.stdout, done.stderr) == ("New\n", "")


def test_construction_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FOURNOS_NAMESPACE", "here")
    monkeypatch.setenv("FOURNOS_OWNER", "me")
    assert repr(Client(api=Api())) == "<Client namespace='here' owner='me'>"
    assert (
        repr(AsyncClient(api=Api(), namespace="there", owner=""))
        == "<AsyncClient namespace='there' owner=''>"
    )
    for options in ({"kubeconfig": tmp_path / "none"}, {"in_cluster": True}):
        with pytest.raises(NotAllowedError) as refusal:
            Client(**options)
        assert "kubeconfig" in refusal.value.fix
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "users: [{name: u, user: {token: t}}]\n"
        "contexts:\n- {name: a, context: {cluster: c, user: u, namespace: from-a}}\n"
        "- {name: b, context: {cluster: c, user: u, namespace: from-b}}\n"
    )
    monkeypatch.delenv("FOURNOS_NAMESPACE")
    assert Client(kubeconfig=str(config)).namespace == "from-a"
    assert Client(kubeconfig=config, context="b").namespace == "from-b"


def test_a_consumers_types_are_checked(tmp_path: Path) -> None:
    program = tmp_path / "consumer.py"
    program.write_text(
        "from fournos.client import AppWrapper, AsyncClient, Client, Handles, Job, LogLine, MiniCluster\n"
        "def use(client: Client) -> list[str]:\n"
        '    job: Job = client.submit({}, key="k")\n'
        "    job.wait(timeout=3)\n"
        "    lines: list[LogLine] = list(job.logs(follow=True))\n"
        "    again: Job = job.retry(priority='high')\n"
        "    return [line.text for line in lines] + [again.name] + [one.phase for one in client.jobs()]\n"
        "def others(client: Client) -> list[str]:\n"
        '    wrapper: AppWrapper = client.submit_appwrapper([{"kind": "Pod"}], queue="q")\n'
        '    wrapper.wait("Running", timeout=3)\n'
        '    flux: MiniCluster = client.minicluster("flux")\n'
        "    flux.scale(4, timeout=0)\n"
        "    texts = [line.text for line in flux.logs(rank=1)]\n"
        '    jobs: Handles[Job] = client.submit_matrix({}, {"env.A": ["b"]})\n'
        "    jobs.to_frame()\n"
        "    queued: list[str] = [entry.reason for queue in client.queues() for entry in queue.waiting()]\n"
        "    events = [event.phase for event in client.object('PipelineRun', 'x').watch()]\n"
        "    attempts = [event.attempt for event in jobs[0].watch()]\n"
        "    return texts + queued + events + [str(attempts[0] + 1)]\n"
        "async def core(client: AsyncClient) -> str:\n"
        "    for component in await (await client.appwrapper('a')).components():\n"
        "        print(component.state)\n"
        "    return (await (await client.submit({})).explain()).verdict\n"
    )
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from fournos.client import Client\n"
        "def use(client: Client) -> None:\n"
        '    client.submit({}, kee="k")\n'
        "    client.job('a').wait(timeout='long')\n"
        "    client.minicluster('a').scale('two')\n"
        "    client.appwrappers().to_fram()\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    env = {**os.environ, "MYPYPATH": str(SOURCES)}
    files = [str(program), str(wrong)]
    done = subprocess.run(
        [*command, *files], capture_output=True, text=True, env=env, cwd=tmp_path, check=False
    )
    lines = (line for line in done.stdout.splitlines() if not line.startswith(str(SOURCES)))
    found = [line for line in lines if "error:" in line]
    assert len(found) == 4, done.stdout
    assert all(Path(line.partition(":")[0]).name == "wrong.py" for line in found)
