"""What `make demo` deploys beside the operator, and what its mock benchmark returns."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dev import demo, demo_schedule, history, resources, setup
from dev.demo_jobs import SLOW
from devcluster import preflight
from devcluster.errors import NotSupportedError
from devcluster.progress import Progress
from fournos.history.results.models import Kpi
from fournos.history.results.read import read_file
from fournos.insight.schedules import next_times
from fournos.systems.schedules.rules import check_manifest

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
