"""deploy/history on a hub, and a Pipeline that sends what it measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import yaml

from dev.history import HOME, with_image
from dev.rollout import await_rollout
from devcluster import manifests
from tests.e2e.hub import ROOT, Hub

BUSYBOX = "docker.io/library/busybox:1.36"
PUBLISHED = "quay.io/rh_perfscale/fournos:"
RESULTS = """\
tests:
  - labels: {model: llama}
    kpis: [{kpi_id: throughput, value: 12.5, unit: tok/s, higher_is_better: true}]
"""


@contextmanager
def deployed(hub: Hub, image: str) -> Iterator[None]:
    """The shipped manifests with this image."""
    found = manifests.parse(hub.kubectl("kustomize", str(ROOT / "deploy" / "history")))
    (deployment,) = (one for one in found if one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith(PUBLISHED)
    text = yaml.safe_dump_all(with_image(found, image))
    hub.kubectl("apply", "--server-side", "-f", "-", stdin=text)
    await_rollout(partial(hub.kubectl, "-n", HOME), "fournos-history", limit=180)
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


def archived(hub: Hub, *names: str) -> None:
    """Waits until the history has these jobs."""
    for name in names:
        hub.until(
            lambda name=name: hub.status(name).get("archivedAt"),
            lambda: hub.kubectl("logs", "-n", HOME, "deployment/fournos-history", "--tail=30"),
        )


def sample(image: str) -> list[dict[str, Any]]:
    """config/fournos-results with this image."""
    text = (ROOT / "config" / "fournos-results" / "pipeline.yaml").read_text()
    task, pipeline = manifests.parse(text)
    (parameter,) = task["spec"]["params"]
    assert parameter["default"].startswith(PUBLISHED)
    parameter["default"] = image
    return [task, pipeline]


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
