"""What `make demo` deploys beside the operator: its mock benchmark, its jobs and its page."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dev import demo, demo_schedule, history, page, resources, setup
from dev.demo_jobs import SAMPLES, SLOW, lacking, recorded
from dev.page import free_port
from devcluster import DevclusterError, preflight
from devcluster.errors import NotSupportedError
from devcluster.progress import Progress
from fournos.api.kinds import FOURNOS_JOB
from fournos.client import AsyncClient
from fournos.engine.kube.resource import key_of
from fournos.history.results.models import Kpi
from fournos.history.results.read import read_file
from fournos.insight.schedules import next_times
from fournos.systems.schedules.rules import check_manifest
from fournos.web.local import HOST
from tests.unit.client.kinds import settled
from tests.unit.client.world import NS, SPEC, Api
from tests.waiting import until

SCRIPT = next(
    step["script"]
    for task in resources.load("dev/mock-pipelines/tasks.yaml")
    if task["metadata"]["name"] == "fournos-run"
    for step in task["spec"]["steps"]
)
TERMINATION_MESSAGE = 4096
"""Bytes that Kubernetes takes from a container for all of its results."""


def measured(name: str, folder: Path) -> tuple[dict[tuple[str, str], Kpi], int]:
    """Runs the mock benchmark and returns its KPIs by load and id, and the bytes of its result."""
    shell = shutil.which("busybox")
    if shell is None:
        pytest.fail("busybox is missing: the mock benchmark runs in its image")
    result = folder / "result"
    script = SCRIPT.replace("$(workspaces.artifacts.path)", str(folder)).replace(
        "$(results.fournos-results.path)", str(result)
    )
    script = script.replace("/var/run/secrets/fournos", str(folder))
    names = {"FJOB_NAME": name, "FOURNOS_NAMESPACE": "n", "MOCK_SLEEP": "0", "PATH": os.environ["PATH"]}
    subprocess.run([shell, "sh", "-c", script], env=names, cwd=folder, check=True, capture_output=True)
    assert sorted(path.name for path in folder.iterdir()) == ["result", "run"], "it writes nothing else"
    found = read_file(result.read_bytes())
    assert found.problems == () and found.warnings == ()
    kpis = {(record.labels["load"], kpi.kpi_id): kpi for record in found.tests for kpi in record.kpis}
    return kpis, result.stat().st_size


def test_the_mock_benchmark_returns_plausible_numbers(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    plain, size = measured("demo-x", tmp_path / "a")
    slow, _ = measured(f"{SLOW}x", tmp_path / "b")
    assert size < TERMINATION_MESSAGE / 2
    assert set(plain) == {
        ("light", "throughput"),
        ("light", "latency"),
        ("heavy", "throughput"),
        ("heavy", "latency"),
        ("heavy", "latency_by_users"),
    }
    for load in ("light", "heavy"):
        fast, less = plain[load, "throughput"].value, slow[load, "throughput"].value
        assert fast and less and 0.77 < less / fast < 0.83
        before, after = plain[load, "latency"].value, slow[load, "latency"].value
        assert before and after and after > before * 1.2
    curve = plain["heavy", "latency_by_users"]
    assert [x for x, _ in curve.values] == [1, 4, 16, 64] and curve.values[0][1] < curve.values[-1][1]


def test_the_history_of_the_demonstration_is_the_shipped_one() -> None:
    found = history.objects("docker.io/local/fournos:x")
    kinds = [one["kind"] for one in found]
    assert {"APIService", "Namespace", "ClusterRole", "PersistentVolumeClaim"} <= set(kinds)
    (deployment,) = (one for one in found if one["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "docker.io/local/fournos:x"
    assert pod["containers"][0]["args"] == ["run", "--enable", "history"]
    mounted = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    assert {"name": "history", "persistentVolumeClaim": {"claimName": "fournos-history"}} in pod["volumes"]


def test_an_unsuitable_machine_is_named_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, untried: bool) -> None:
        raise NotSupportedError(f"untried: {untried}")

    monkeypatch.setattr(preflight, "require", refuse)
    for name in ("prepare", "operator_image"):
        monkeypatch.setattr(demo, name, lambda *_: pytest.fail("it went on"))
    for untried in (False, True):
        with pytest.raises(NotSupportedError, match=f"untried: {untried}"):
            demo.run(setup.Where(untried=untried), Progress(quiet=True))


def test_only_a_native_cluster_asks_something_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "require", lambda *_, **__: pytest.fail("it looked"))
    setup.check_machine(setup.Where(provider="kind"), Progress(quiet=True))
    setup.check_machine(setup.Where(provider="existing"), Progress(quiet=True))


def test_the_option_reaches_the_read_file() -> None:
    parsed = setup.arguments("").parse_args(["--untried"])
    assert setup.where_of(parsed).untried
    assert not setup.where_of(setup.arguments("").parse_args([])).untried


@pytest.mark.parametrize("second", [0, 44, 46, 59])
@pytest.mark.parametrize("minute", [0, 58, 59])
def test_the_first_run_of_the_schedule_is_seconds_away(minute: int, second: int) -> None:
    now = datetime(2026, 11, 27, 23, minute, second, tzinfo=UTC)
    made = demo_schedule.schedule("n", now)
    assert check_manifest(made) == []
    first = next_times(made, 2, now)
    assert timedelta(seconds=15) <= first[0] - now <= timedelta(seconds=75)
    assert first[1] - first[0] == timedelta(hours=1)


# --- The jobs of `make demo`: which of them are submitted, and when their ends count as recorded -----


async def test_recorded_jobs_are_waited_for_by_one_watch() -> None:
    api = Api()
    client = AsyncClient(api=api, namespace=NS)
    jobs = [(await client.submit(SPEC, name=name)).raw for name in ("one", "two")]
    waits = [asyncio.create_task(recorded(client, job)) for job in jobs]
    await until(lambda: api.open[FOURNOS_JOB] == 1)
    for name in ("one", "two"):
        api.set(name, "Succeeded")
    await settled()
    assert not any(wait.done() for wait in waits)
    for name in ("one", "two"):
        api.set(name, "Succeeded", archivedAt="2030-01-01T00:00:00Z")
    found = await asyncio.wait_for(asyncio.gather(*waits), 60)
    assert [job["metadata"]["name"] for job in found] == ["one", "two"]
    assert api.calls["watch"] == 1


async def test_a_job_that_is_deleted_before_its_record_is_an_error() -> None:
    api = Api()
    client = AsyncClient(api=api, namespace=NS)
    job = (await client.submit(SPEC, name="one")).raw
    waiting = asyncio.create_task(recorded(client, job))
    await until(lambda: api.open[FOURNOS_JOB] == 1)
    await api.delete(FOURNOS_JOB, key_of(job), uid=job["metadata"]["uid"])
    with pytest.raises(DevclusterError, match="one was deleted before its end was recorded"):
        await asyncio.wait_for(waiting, 60)


@pytest.mark.parametrize(
    ("plain", "slow", "begun", "submitted"),
    [
        (0, 0, {}, ["demo-"] * SAMPLES + [SLOW]),
        (SAMPLES, 1, {}, ["demo-"]),
        (SAMPLES + 5, 0, {}, ["demo-", SLOW]),
        (0, 0, {"demo-": 1}, ["demo-"] * (SAMPLES - 1) + [SLOW]),
        (0, 0, {"demo-": SAMPLES, SLOW: 1}, []),
        (SAMPLES, 0, {SLOW: 1}, ["demo-"]),
        (1, 1, {"demo-": 1}, ["demo-"] * (SAMPLES - 2)),
    ],
    ids=["first", "again", "no slow one", "killed at once", "killed later", "one to follow", "in between"],
)
def test_only_what_is_lacking_is_submitted(
    plain: int, slow: int, begun: Mapping[str, int], submitted: list[str]
) -> None:
    """Jobs of a demonstration that was killed are waited for, not submitted once more."""
    assert lacking("demo-", plain=plain, slow=slow, begun=begun) == submitted


# --- The page of the demonstration: one process at a time --------------------------------------------


def test_the_preferred_port_is_taken_if_it_is_free() -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        port = other.getsockname()[1]
    assert free_port(port) == port


def test_a_port_that_stays_in_use_is_replaced_by_a_free_one() -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        assert free_port(other.getsockname()[1], patience=0.2) != other.getsockname()[1]


@pytest.mark.parametrize("after", ["", "another"])
async def test_the_process_ends_with_the_record_or_when_another_serves(
    tmp_path: Path, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "_LOOK", 0)
    (tmp_path / "page").write_text("own")
    waiting = asyncio.create_task(page._replaced(tmp_path, "own"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    if after:
        (tmp_path / "page").write_text(after)
    else:
        (tmp_path / "page").unlink()
    await waiting


def test_the_page_is_of_the_demonstration_whatever_the_terminal_is_set_to() -> None:
    assert page._without_settings({"KUBECONFIG": "/other", "PATH": "/bin"}) == {"PATH": "/bin"}
