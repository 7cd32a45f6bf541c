"""`make demo` goes on from each of its steps at which it was killed.

It runs on the cluster of all these tests. `make demo` on a cluster of its own is `tests/e2e/bare`, an `up`
that is killed is `tests/e2e/devcluster`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest
import yaml

from dev import history
from dev.demo_jobs import SAMPLES
from dev.image import MOCK_RESOLVE
from devcluster import state
from tests.commands import ROOT, environment, run
from tests.e2e.hub import Hub
from tests.waiting import LIMIT

pytestmark = pytest.mark.timeout(900)

STEPS = ("Namespaces", "Two replicas", "Its store", "FournosJob demo-", "The other jobs", "It answers")
"""The beginnings of what it prints when it begins a step, in their order."""


@pytest.fixture
def demonstration(hub: Hub, operator_image_tag: str) -> Iterator[tuple[Hub, dict[str, str]]]:
    """A namespace without any preparation, and the variables that make it that of `make demo`."""
    suffix = uuid.uuid4().hex[:6]
    own = replace(hub, namespace=f"fournos-demo-{suffix}", secrets_namespace=f"psap-demo-{suffix}")
    cluster = f"fournos-test-demo-{suffix}"
    words = (
        *("--cluster", cluster, "--provider", "existing", "--kubeconfig", str(hub.kubeconfig)),
        *("--resolve-image", MOCK_RESOLVE, "--image", operator_image_tag),
    )
    yield (
        own,
        {
            "DEV_ARGS": " ".join(words),
            "FOURNOS_NAMESPACE": own.namespace,
            "FOURNOS_SECRETS_NAMESPACE": own.secrets_namespace,
        },
    )
    state.remove(cluster)
    # While its operator runs: the lock of a cluster must not outlast it.
    own.run("delete", "fournosjobs", "--all", "--timeout=120s", check=False)
    # An APIService without its Service would hold up deletions of namespaces.
    hub.kubectl("delete", "apiservice", "v1.history.fournos.dev", "--ignore-not-found")
    objects = yaml.safe_dump_all(history.objects(operator_image_tag))
    hub.kubectl("delete", "-f", "-", stdin=objects, check=False)
    for namespace in (own.namespace, f"{own.namespace}-operator", own.secrets_namespace):
        hub.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=false")
    binding = f"fournos-queue-reader-{own.namespace}"
    hub.kubectl("delete", "clusterrolebinding", binding, "--ignore-not-found")


def kill_at(step: str, variables: dict[str, str]) -> None:
    """Starts `make demo` and kills all of it when it begins the step."""
    process = subprocess.Popen(
        ["make", "demo"],
        cwd=ROOT,
        env=environment(variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    shown = []
    with process.stdout:
        try:
            for line in process.stdout:
                shown.append(line)
                if line.lstrip(" …").startswith(step):
                    return
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=LIMIT)
    raise AssertionError(f"it has not begun {step!r}\n{''.join(shown)}")


def next_run(hub: Hub) -> str | None:
    """When the operator runs the schedule next."""
    (schedule,) = hub.list("fournosschedules")
    return schedule.get("status", {}).get("nextTime")


def test_it_goes_on_from_each_step_at_which_it_was_killed(
    demonstration: tuple[Hub, dict[str, str]],
) -> None:
    hub, variables = demonstration
    for step in STEPS:
        kill_at(step, variables)
    shown = run("make", "demo", **variables)
    assert len(re.findall(r"^demo-[\w-]+: Succeeded$", shown, re.MULTILINE)) == 1, shown
    jobs = [one for one in hub.list("fournosjobs") if "generateName" in one["metadata"]]
    # Each of the last three runs submits a job of its own if those before it are recorded by then.
    submitted = range(SAMPLES + 2, SAMPLES + 5)
    assert len(jobs) in submitted, "jobs of a run that was killed are waited for, not submitted again"
    hub.until(lambda: next_run(hub), "the schedule has no next run")
