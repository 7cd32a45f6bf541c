"""deploy/history on a cluster: a task sends what it measured, and it is read when the job is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from dev.release import ROOT
from tests.e2e.hub import Hub

HOME = "fournos-history"
BUSYBOX = "docker.io/library/busybox:1.36"
PUBLISHED = "quay.io/rh_perfscale/fournos:"
RESULTS = """\
tests:
  - labels: {model: llama}
    kpis: [{kpi_id: throughput, value: 12.5, unit: tok/s, higher_is_better: true}]
"""


@pytest.fixture
def history(hub: Hub, operator_image_tag: str) -> Iterator[None]:
    """The shipped manifests with the image of this checkout; the cluster has no storage class."""
    found = list(yaml.safe_load_all(hub.kubectl("kustomize", str(ROOT / "deploy" / "history"))))
    shipped = [one for one in found if one["kind"] != "PersistentVolumeClaim"]
    (deployment,) = (one for one in shipped if one["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"].startswith(PUBLISHED)
    container["image"] = operator_image_tag
    pod["volumes"] = [{"name": one["name"], "emptyDir": {}} for one in pod["volumes"]]
    text = yaml.safe_dump_all(shipped)
    hub.kubectl("apply", "--server-side", "-f", "-", stdin=text)
    hub.kubectl(
        "rollout", "status", "deployment/fournos-history", "-n", HOME, "--timeout=120s", timeout=150.0
    )
    hub.until(
        lambda: "True" in _available(hub),
        lambda: hub.kubectl("logs", "-n", HOME, "deployment/fournos-history"),
    )
    yield
    # In the order of dependence: an APIService without its Service would hold up deletions of namespaces.
    hub.kubectl("delete", "apiservice", "v1.history.fournos.dev")
    hub.kubectl("delete", "--wait=false", "-f", "-", stdin=text, check=False)


def _available(hub: Hub) -> str:
    path = '{.status.conditions[?(@.type=="Available")].status}'
    return hub.kubectl("get", "apiservice", "v1.history.fournos.dev", "-o", f"jsonpath={path}")


def measuring(image: str) -> dict[str, Any]:
    """A Pipeline whose task writes results and a file, and sends both."""
    steps: list[dict[str, Any]] = [
        {
            "name": "measure",
            "image": BUSYBOX,
            "script": "#!/bin/sh\nmkdir -p /workspace/out\necho plot > /workspace/out/a.svg\n"
            f"cat > /workspace/results.yaml <<'END'\n{RESULTS}END\n",
        },
        {"name": "results", "image": image, "args": ["results", "push", "/workspace/results.yaml"]},
        {"name": "artifacts", "image": image, "args": ["artifacts", "push", "/workspace/out"]},
    ]
    for step in steps:
        step["imagePullPolicy"] = "IfNotPresent"
        if "args" in step:
            step["command"] = ["fournos"]
    return {
        "apiVersion": "tekton.dev/v1",
        "kind": "Pipeline",
        "metadata": {
            "name": "measuring",
            "annotations": {"fournos.dev/resolve-image": BUSYBOX},
        },
        "spec": {"tasks": [{"name": "task", "taskSpec": {"steps": steps}}]},
    }


def fournos(hub: Hub, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "fournos", *words, "-n", hub.namespace],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "KUBECONFIG": str(hub.kubeconfig)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_a_run_measured_outlives_it(hub: Hub, history: None, operator_image_tag: str) -> None:
    hub.apply(measuring(operator_image_tag))
    hub.submit("measured", pipeline="measuring")
    assert hub.wait("measured", timeout=180)["phase"] == "Succeeded", hub.run(
        "logs", "-l", "fournos.dev/job-name=measured", "--all-containers", "--tail=20", check=False
    )
    hub.until(
        lambda: hub.status("measured").get("archivedAt"),
        lambda: hub.kubectl("logs", "-n", HOME, "deployment/fournos-history", "--tail=30"),
    )
    hub.run("delete", "fournosjob", "measured")
    hub.until(lambda: not hub.exists("fournosjob", "measured"), lambda: "the job does not go")

    shown = fournos(hub, "get", "measured")
    assert "Succeeded" in shown
    assert json.loads(fournos(hub, "get", "measured", "-o", "json"))["spec"]["pipeline"] == "measuring"
    assert "measured" in fournos(hub, "list", "--all-time")
    assert "throughput  12.5   tok/s" in fournos(hub, "results", "list", "measured")
    assert fournos(hub, "artifacts", "get", "measured", "a.svg") == "plot\n"
