"""The client library on a real cluster: its pages, executed, and what only a real cluster shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fournos.client import Category, Client, JobFailed
from tests.documents import cells, execute, sections
from tests.e2e.hub import ROOT, Hub
from tests.e2e.jobs.test_lifecycle import pipeline
from tests.waiting import blocking_until

PAGE: Path = ROOT / "docs" / "client.md"
KINDS: Path = ROOT / "docs" / "client-kinds.md"
NOTEBOOK: Path = ROOT / "docs" / "notebooks" / "first-benchmark.ipynb"
ELSEWHERE = frozenset({"AppWrappers", "MiniClusters"})
"""Sections that the tests of these systems execute."""
BUSYBOX = "docker.io/library/busybox:1.36"


@pytest.fixture
def environment(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(hub.kubeconfig))
    monkeypatch.setenv("FOURNOS_NAMESPACE", hub.namespace)
    monkeypatch.setenv("FOURNOS_OWNER", "docs")


@pytest.fixture
def client(environment: None) -> Iterator[Client]:
    with Client(owner="e2e") as found:
        yield found


def run(page: Path, names: dict[str, object]) -> None:
    for heading, blocks in sections(page).items():
        for block in blocks if heading not in ELSEWHERE else ():
            exec(compile(block, str(page), "exec"), names)


def test_the_pages_are_true(environment: None, capsys: pytest.CaptureFixture[str]) -> None:
    run(PAGE, {})
    with Client() as client:
        run(KINDS, {"client": client})
    out = capsys.readouterr().out
    assert "Succeeded cluster-1 1 x a100" in out
    assert "spec.hardware.gpuCount write at least 1" in out
    assert "with another spec" in out
    assert "-> Succeeded" in out
    assert "4 of 4" in out
    assert "env.BATCH" in out  # the data frame
    assert "fournos-queue" in out


def test_the_notebook_runs(environment: None, capsys: pytest.CaptureFixture[str]) -> None:
    shown = execute(cells(NOTEBOOK), NOTEBOOK)
    html = [value._repr_html_() for value in shown if hasattr(value, "_repr_html_")]
    assert len(html) == 5
    assert all("Succeeded" in text for text in html[1:])
    assert "running_for" in html[3]
    assert capsys.readouterr().out


def test_a_failure_is_the_benchmarks_and_the_end_is_seen_at_once(client: Client, hub: Hub) -> None:
    hub.apply(pipeline("client-fails", "echo before; sleep 5; exit 7"))
    job = client.submit(
        {
            "pipeline": "client-fails",
            "cluster": "cluster-1",
            "exclusive": False,
            "hardware": {"gpuType": "a100", "gpuCount": 1},
            "executionEngine": {"forge": {"project": "mock"}},
        },
        name="client-fails",
    )
    job.wait("Running", timeout=120)
    assert [(task.name, task.state) for task in job.tasks()] in (
        [("task", "Waiting")],
        [("task", "Running")],
        [],
    )
    assert [line.text for line in job.logs(follow=True)] == ["before"]
    with pytest.raises(JobFailed) as end:
        job.wait(timeout=120)
    found = end.value.failure
    assert (found.category, found.task) == (Category.BENCHMARK, "task")
    assert found.message == "step step ended with exit code 7"
    assert "has ended: Failed" in job.explain().verdict
    job.delete()


def test_the_explanation_names_the_holder(client: Client, slow: None) -> None:
    spec = {
        "pipeline": "fournos-run-only",
        "cluster": "cluster-1",
        "hardware": {"gpuType": "a100", "gpuCount": 1},
        "executionEngine": {"forge": {"project": "mock"}},
    }
    first = client.submit(spec, name="client-holds")
    first.wait("Running", timeout=120)
    second = client.submit(spec, name="client-waits")
    second.wait("Pending", timeout=120)
    blocking_until(lambda: second.explain().holders, "no holder is named")
    found = second.explain()
    assert found.verdict == "client-waits wants cluster-1 for itself; 1 job on it must end first."
    assert found.quota is not None
    assert [holder["metadata"]["name"] for holder in found.holders] == ["client-holds"]
    for job in (second, first):
        job.stop(now=True)
        job.settle(timeout=120)
        assert job.phase == "Stopped"
        job.delete()
