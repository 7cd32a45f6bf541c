"""Every way to launch a command, on real pods; a few of them run side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fournos.systems.miniclusters.names import COMPLETION_INDEX_LABEL
from tests.e2e.miniclusters.clusters import Clusters
from tests.e2e.miniclusters.conftest import NAMESPACE

HELLO = "hello world\n"
CUSTOM = f"""
[resource]
path = "/mnt/flux/view/etc/flux/system/R"
[bootstrap]
curve_cert = "/mnt/flux/view/curve/curve.cert"
default_port = 8050
default_bind = "tcp://eth0:%p"
default_connect = "tcp://%h.flux-service.{NAMESPACE}.svc.cluster.local:%p"
hosts = [ {{ host = "custom-[0-1]" }} ]
"""
"""As upstream's own examples write it: the configuration is in the view."""
MODES: dict[str, dict[str, Any]] = {
    "submit": {"size": 4, "tasks": 4, "container": {"command": "echo hello world"}},
    "launcher": {"container": {"launcher": True, "command": "flux run -n 2 echo launched"}},
    "script": {
        "tasks": 2,
        "container": {"commands": {"script": '#!/bin/bash\necho "I am \\$FLUX_TASK_RANK"\n'}},
    },
    "old": {"container": {"command": "echo hello world", "environment": {"FLUX_STANDIN_VERSION": "0.61.0"}}},
    "batch": {
        "logging": {"quiet": True, "debug": True},
        "container": {
            "batch": True,
            "command": "echo one\n\necho two\n",
            "commands": {"post": "cat /tmp/fluxout/job-0.out /tmp/fluxout/job-2.out"},
        },
    },
    "raw": {
        "container": {
            "batch": True,
            "batchRaw": True,
            "command": "flux run -n 1 echo raw > /tmp/raw.out\nflux queue idle\n",
            "commands": {"post": "cat /tmp/raw.out"},
        }
    },
    "minimal": {"flux": {"minimalService": True}, "tasks": 2, "container": {"command": "echo hello world"}},
    "timed": {"logging": {"quiet": True, "timed": True}, "container": {"command": "echo hello world"}},
    "view": {"flux": {"container": {}}, "container": {"command": "echo hello world"}},
    "custom": {
        "flux": {"container": {}, "brokerConfig": CUSTOM},
        "container": {
            "command": "echo hello world",
            "commands": {
                "brokerPre": "[[ -e /mnt/flux/view/curve/curve.cert && -d /mnt/flux/view/run/flux ]]"
            },
        },
    },
    "options": {
        "flux": {"optionFlags": "-o cpu-affinity=off", "connectTimeout": "2s", "topology": "kary:1"},
        "tasks": 0,
        "container": {"command": "echo hello world", "commands": {"post": "echo after"}},
    },
    "fails": {"container": {"command": "bash -c 'exit 3'", "commands": {"post": "echo after"}}},
    "beside": {
        "container": {"command": "echo hello world", "runFlux": True},
        # Its image's entrypoint is a shell on a terminal, which ignores SIGTERM.
        "containers": [
            {"name": "stays", "noWrapEntrypoint": True, "lifeCycle": {"preStopExec": "kill -HUP 1"}}
        ],
    },
}
OUTPUT = {
    "submit": HELLO * 4,
    "launcher": "launched\nlaunched\n",
    "batch": "one\ntwo\n",
    "raw": "raw\n",
    "minimal": HELLO * 2,
    "old": HELLO,
    "view": HELLO,
    "custom": HELLO,
    "options": HELLO * 2 + "after\n",
    "fails": "after\n",
}


AHEAD = 3
"""So many start while one is looked at: all at once would be too much for a small machine."""


@pytest.fixture(scope="module")
def begun(clusters: Clusters) -> Iterator[set[str]]:
    names: set[str] = set()
    yield names
    clusters.run("delete", "miniclusters", *names, "--wait=false", check=False)


@pytest.fixture
def made(clusters: Clusters, begun: set[str], name: str) -> Clusters:
    """The one with this name is there, and the next ones are on their way."""
    order = list(MODES)
    for mode in order[: order.index(name) + 1 + AHEAD]:
        if mode not in begun:
            begun.add(mode)
            _make(clusters, mode)
    return clusters


def _make(clusters: Clusters, name: str) -> None:
    spec = dict(MODES[name])
    if name in ("view", "custom"):
        spec["flux"] = {**spec["flux"], "container": {"image": clusters.image}}
    if "containers" in spec:
        spec["containers"] = [{"image": clusters.image, **spec["containers"][0]}]
    clusters.make(name, **spec)


@pytest.mark.parametrize("name", MODES)
def test_mode(made: Clusters, name: str) -> None:
    status = made.reaches(name, "Finished")
    assert status["exitCode"] == (3 if name == "fails" else 0), made.explain(name)
    assert not made.alive(name)
    if name in OUTPUT:
        output = made.log(name).replace("\r", "")
        # Errors of Flux itself go the same way: what the command prints is asked for.
        errors = ("flux-job:", "broker.err")
        lines = [line for line in output.splitlines(keepends=True) if not line.startswith(errors)]
        assert "".join(lines) == OUTPUT[name]


@pytest.mark.parametrize("name", ["script"])
def test_ranks_are_labelled(made: Clusters, name: str) -> None:
    made.reaches(name, "Finished")
    assert sorted(made.log(name).replace("\r", "").splitlines()) == ["I am 0", "I am 1"]


@pytest.mark.parametrize("name", ["timed"])
def test_times_are_shown(made: Clusters, name: str) -> None:
    made.reaches(name, "Finished")
    timed = made.log(name)
    assert "FLUXTIME fluxsubmit wall time 0:" in timed and "hello world" in timed


@pytest.mark.parametrize("name", ["fails"])
def test_a_failed_command_is_not_run_again(made: Clusters, name: str) -> None:
    made.reaches(name, "Finished")
    assert len([pod for pod in made.pods(name) if index(pod) == 0]) == 1
    assert made.pods(name)[0]["metadata"]["labels"]["job-index"] == "0"


def index(pod: dict[str, Any]) -> int:
    return int(pod["metadata"]["labels"][COMPLETION_INDEX_LABEL])
