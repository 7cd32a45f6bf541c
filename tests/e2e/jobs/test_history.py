"""deploy/history on a cluster: a task sends what it measured, and it is read when the job is gone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.history import BUSYBOX, archived, deployed, sample
from tests.e2e.hub import ROOT, Hub
from tests.waiting import LIMIT


@pytest.fixture(scope="module")
def history(hub: Hub, operator_image_tag: str) -> Iterator[None]:
    """The shipped manifests with the image of this checkout."""
    with deployed(hub, operator_image_tag):
        yield


PAGE = ROOT / "docs" / "first-benchmark.md"
FAILING = """\
#!/bin/sh
seq 1 3000 | sed 's/^/epoch /'
echo 'ValueError: no such model' >&2
echo 'cleaning up'
sleep 3
exit 3
"""
"""It sleeps because containerd reads what a container has printed for two seconds after its end, and on a
busy machine that does not suffice."""


def failing() -> dict[str, Any]:
    """A Pipeline whose second step fails after many lines."""
    steps = [
        {"name": "fetch", "image": BUSYBOX, "script": "#!/bin/sh\necho fetched\n"},
        {"name": "train", "image": BUSYBOX, "script": FAILING},
    ]
    return {
        "apiVersion": "tekton.dev/v1",
        "kind": "Pipeline",
        "metadata": {"name": "failing", "annotations": {"fournos.dev/resolve-image": BUSYBOX}},
        "spec": {"tasks": [{"name": "task", "taskSpec": {"steps": steps}}]},
    }


def fournos(hub: Hub, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "fournos", *words, "-n", hub.namespace],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
        env={**os.environ, "KUBECONFIG": str(hub.kubeconfig)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_a_run_measured_outlives_it(hub: Hub, history: None, operator_image_tag: str) -> None:
    for one in sample(operator_image_tag):
        hub.apply(one)
    hub.submit("measured", pipeline="fournos-results-sample")
    assert hub.wait("measured", timeout=180)["phase"] == "Succeeded", hub.run(
        "logs", "-l", "fournos.dev/job-name=measured", "--all-containers", "--tail=20", check=False
    )
    archived(hub, "measured")
    hub.run("delete", "fournosjob", "measured")
    hub.until(lambda: not hub.exists("fournosjob", "measured"), lambda: "the job does not go")

    shown = fournos(hub, "get", "measured")
    assert "Succeeded" in shown
    assert (
        json.loads(fournos(hub, "get", "measured", "-o", "json"))["spec"]["pipeline"]
        == "fournos-results-sample"
    )
    assert "measured" in fournos(hub, "list", "--all-time")
    (test,) = json.loads(fournos(hub, "results", "list", "measured", "-o", "json"))
    assert {kpi["kpi_id"]: kpi["unit"] for kpi in test["kpis"]} == {"duration": "ms", "throughput": "MB/s"}
    assert "throughput" in shown
    assert fournos(hub, "artifacts", "get", "measured", "checksum.txt").endswith("-\n")
    assert "results.yaml" in fournos(hub, "artifacts", "list", "measured")


def test_the_log_of_a_run_outlives_it(hub: Hub, history: None) -> None:
    hub.apply(failing())
    hub.submit("printed", pipeline="failing")
    assert hub.wait("printed", timeout=180)["phase"] == "Failed"
    live = fournos(hub, "logs", "printed")
    archived(hub, "printed")
    hub.run("delete", "fournosjob", "printed")
    hub.until(lambda: not hub.exists("fournosjob", "printed"), lambda: "the job does not go")

    lines = fournos(hub, "logs", "printed").splitlines()
    assert lines == live.splitlines()
    assert lines[0] == "[task/fetch] fetched" and len(lines) == 3003
    shown = fournos(hub, "logs", "printed", "--first-error").splitlines()
    assert "[task/train] ValueError: no such model" in shown and len(shown) <= 13


def test_the_page_of_a_first_benchmark(hub: Hub, history: None, tmp_path: Path) -> None:
    """Its commands as they stand there: a green gate, a regression made on purpose, a red gate."""
    kubectl = shutil.which(hub.kubectl_words[0])
    assert kubectl
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(kubectl)
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    given = {"PATH": path, "KUBECONFIG": str(hub.kubeconfig), "FOURNOS_NAMESPACE": hub.namespace}
    said = ""
    for block in re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            capture_output=True,
            text=True,
            check=False,
            timeout=5 * LIMIT,
            cwd=tmp_path,
            env={**os.environ, **given},
        )
        assert done.returncode == 0, (block, done.stdout, done.stderr)
        said += done.stdout
    assert "Regression suspected" in said and "| cat |" in said
