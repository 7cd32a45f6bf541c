"""AppWrappers with real pods: the README's walk-through, and what may happen to them on the way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.appwrappers.stories import GPU, Stories, deployment, job, pod, service, wrapper
from tests.e2e.hub import ROOT

HEALTH = "autopilot.ibm.com/gpuhealth"
SAMPLE = ROOT / "samples" / "appwrapper.yaml"


@pytest.fixture
def clean(stories: Stories) -> Iterator[None]:
    """Nothing of the story before is left: quota and names are free."""
    yield
    stories.run("delete", "appwrappers", "--all", "--timeout=180s")
    stories.gone()


pytestmark = pytest.mark.usefixtures("clean")


def test_the_walk_through_of_the_readme(stories: Stories) -> None:
    """`kubectl apply -f samples/appwrapper.yaml`: the Pod runs for 5 seconds, then all has Succeeded."""
    with stories.watching("appwrappers") as wrappers, stories.watching("pods") as pods:
        stories.run("apply", "-f", str(SAMPLE))
        stories.phase("sample", "Succeeded")
        stories.until(lambda: ["sample", "Succeeded"] in seen(wrappers, 0, 1), wrappers.read_text)
        stories.until(lambda: ["Completed"] in seen(pods, 2), pods.read_text)
        states, runs = seen(wrappers, 0, 1), seen(pods, 2)
    assert states[0] == ["NAME", "STATUS"]
    assert ["sample", "Running"] in states and ["Running"] in runs
    stories.run("delete", "-f", str(SAMPLE), "--timeout=180s")
    assert stories.list("pods") == []


def seen(table: Path, *columns: int) -> list[list[str]]:
    """These columns of the lines that kubectl has written, whole lines only."""
    lines = [line.split() for line in table.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [[line[column] for column in columns] for line in lines if len(line) > max(columns)]


def test_a_mix_of_kinds(stories: Stories) -> None:
    """The AppWrapper is ready when each component reports readiness; all are deleted together."""
    mix = (pod("web"), service("web", "web"), job("batch", "sleep 2", completions=2), deployment("shop", 2))
    stories.apply(wrapper("mix", *mix))
    stories.ready("mix")
    assert len(stories.live("mix")) >= 3
    addresses = json.loads(stories.run("get", "endpointslices", "-o", "json"))["items"]
    assert any(one["endpoints"] for one in addresses if one["metadata"]["name"].startswith("web"))
    stories.until(
        lambda: stories.get("job", "batch").get("status", {}).get("succeeded") == 2,
        lambda: "the Job does not end",
    )
    assert stories.get("appwrapper", "mix")["status"]["phase"] == "Running"
    stories.run("delete", "appwrapper", "mix", "--timeout=180s")
    for kind in ("pods", "services", "jobs", "deployments"):
        assert stories.list(kind) == [], kind


def test_jobs_whose_pods_fail(stories: Stories) -> None:
    """The Job controller would go on for ten minutes: the failed pods count before it gives up."""
    again = {"failureGracePeriodDuration": "0s", "retryPausePeriodDuration": "1s", "retryLimit": "2"}
    stories.apply(
        wrapper("again", job("again", "exit 1"), **again),
        wrapper("fatal", job("fatal", "exit 3"), failureGracePeriodDuration="1h", terminalExitCodes="3"),
    )
    for name, resets in (("again", 2), ("fatal", 0)):
        found = stories.phase(name, "Failed")
        assert stories.condition_of(found, "Unhealthy")["reason"] == "FoundFailedPods"
        assert found["status"].get("resettingCount", 0) == resets
    stories.until(lambda: not stories.list("jobs"), lambda: f"Jobs stay: {stories.list('jobs')}")


def test_a_higher_priority_takes_the_place(stories: Stories) -> None:
    low, high = (
        {"kueue.x-k8s.io/priority-class": f"{stories.namespace}-{level}"} for level in ("low", "high")
    )
    stories.apply(wrapper("low", pod("low", memory="4Gi"), labels=low))
    stories.ready("low")
    until_touched = "until [ -e /tmp/end ]; do sleep 0.2; done"
    stories.apply(wrapper("high", pod("high", until_touched, memory="4Gi"), labels=high))
    stories.phase("low", "Suspended")
    assert stories.live("low") == []
    stories.ready("high")
    stories.run("exec", "high", "--", "touch", "/tmp/end")
    stories.phase("high", "Succeeded")
    stories.ready("low")


@pytest.fixture
def gpu_node(stories: Stories) -> Iterator[str]:
    """Gives a Node GPUs in its capacity."""
    name = json.loads(stories.kubectl("get", "nodes", "-o", "json"))["items"][0]["metadata"]["name"]
    words = ("patch", "node", name, "--subresource=status", "--type=merge", "-p")
    stories.kubectl(*words, json.dumps({"status": {"capacity": {GPU: "4"}, "allocatable": {GPU: "4"}}}))
    yield name
    stories.kubectl("label", "node", name, f"{HEALTH}-")
    stories.kubectl(*words, json.dumps({"status": {"capacity": {GPU: None}, "allocatable": {GPU: None}}}))


def test_a_node_that_goes_bad(stories: Stories, gpu_node: str) -> None:
    """What uses its devices leaves at once, and comes back when it is well."""
    stories.apply(wrapper("devices", pod("devices", gpus="1"), retryPausePeriodDuration="1s"))
    stories.ready("devices")
    before = stories.get("pod", "devices")["metadata"]["uid"]
    stories.kubectl("label", "--overwrite", "node", gpu_node, f"{HEALTH}=EVICT")
    anew = stories.until(
        lambda: (found := stories.list("pods")) and found[0]["metadata"]["uid"] != before and found[0],
        lambda: "the pod stays on the bad node",
    )
    assert not anew["spec"].get("nodeName"), "placed on a bad node"
    assert "resettingCount" not in stories.get("appwrapper", "devices")["status"], "not its own fault"
    stories.kubectl("label", "--overwrite", "node", gpu_node, f"{HEALTH}=PASS")
    stories.ready("devices")


def test_fifty_for_five_places(stories: Stories) -> None:
    names = [f"many-{number}" for number in range(50)]
    stories.apply(*(wrapper(name, pod(name, "sleep 0.5", memory="800Mi")) for name in names))
    most = 0

    def done() -> bool:
        nonlocal most
        most = max(most, len(stories.live()))
        phases = [one.get("status", {}).get("phase") for one in stories.list("appwrappers")]
        return phases.count("Succeeded") == 50

    stories.until(done, lambda: stories.run("get", "appwrappers"), timeout=180)
    assert 1 < most <= 5
