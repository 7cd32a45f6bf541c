"""Each button and form of the page, pressed in a browser; what it did is read from the cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.hub import Hub
from tests.e2e.web.conftest import BROKEN, CLUSTER, CLUSTERS, DONE, OpenTab
from tests.e2e.web.tab import Tab

RUNS = "/apis/history.fournos.dev/v1/namespaces/{}/runs/{}"
SCRIPTS = pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])


def job_page(hub: Hub, name: str, page: str = "") -> str:
    return f"/jobs/{hub.namespace}/{name}{page}"


def shown_job(hub: Hub, tab: Tab) -> dict[str, Any]:
    """The job whose page a tab shows, from the API server."""
    path = tab.page.url.removeprefix(tab.base)
    assert path.startswith(f"/jobs/{hub.namespace}/"), path
    return hub.get("fournosjob", path.rpartition("/")[2])


def recorded(hub: Hub, name: str, page: str = "") -> dict[str, Any]:
    """What the history answers about a job."""
    uid = hub.get("fournosjob", name)["metadata"]["uid"]
    found: dict[str, Any] = json.loads(hub.kubectl("get", "--raw", RUNS.format(hub.namespace, uid) + page))
    return found


# --- jobs ----------------------------------------------------------------------------------------


@SCRIPTS
def test_stop_then_delete(scripts: bool, world: Hub, open_tab: OpenTab) -> None:
    name = f"web-stop-{scripts}".lower()
    world.submit(name, pipeline="web-sleeps")
    tab = open_tab(job_page(world, name), java_script_enabled=scripts)
    world.wait(name, ["Running"])
    tab.confirm("Stop")
    assert "stop" in tab.notice.lower()
    assert world.get("fournosjob", name)["spec"]["shutdown"] == "Stop"
    world.wait(name, ["Stopped"])
    tab.goto(job_page(world, name))
    assert tab.text("h1 .phase") == "Stopped"
    tab.confirm("Delete")
    assert tab.page.url == f"{tab.base}/jobs" and name in tab.notice
    world.until(lambda: not world.exists("fournosjob", name), lambda: f"{name} is still there")


def test_retry_then_resubmit_with_changes(world: Hub, open_tab: OpenTab) -> None:
    first = world.get("fournosjob", BROKEN)
    tab = open_tab(job_page(world, BROKEN))
    tab.confirm("Retry")
    made = shown_job(world, tab)
    assert made["metadata"]["name"] in tab.notice
    assert made["metadata"]["annotations"]["fournos.dev/retry-of"].startswith(f"{BROKEN}/")
    assert made["spec"] == first["spec"]

    tab.press(tab.page.get_by_role("link", name="Resubmit with changes"))
    assert tab.page.url == f"{tab.base}/submit?from={world.namespace}/{made['metadata']['name']}"
    assert tab.one("[name=cluster]").is_visible() and not tab.one("[name=displayName]").is_visible()
    tab.expected = ("status of 422",)
    fill(tab, executionEngine="[")
    tab.press("Preview")
    refused_at(tab, "executionEngine")
    tab.is_accessible()
    fill(tab, executionEngine=yaml.safe_dump(first["spec"]["executionEngine"]))
    tab.page.get_by_text("All other fields", exact=True).click()
    fill(tab, pipeline="fournos-run-only", displayName="Again")
    tab.press("Preview")
    changes = tab.one("#changes tbody tr").all_inner_texts()
    assert [one.split() for one in changes] == [
        ["displayName", "–", "Again"],
        ["pipeline", "web-fails", "fournos-run-only"],
    ]
    tab.is_accessible()
    tab.press("Submit")
    changed = shown_job(world, tab)["spec"]
    assert changed == {**first["spec"], "pipeline": "fournos-run-only", "displayName": "Again"}
    assert "changed: displayName, pipeline" in tab.notice


def test_keep_then_let_expire(world: Hub, open_tab: OpenTab) -> None:
    tab = open_tab(job_page(world, DONE))
    tab.confirm("Keep", reason="shown at the fair")
    assert recorded(world, DONE)["kept"]["reason"] == "shown at the fair"
    assert "shown at the fair" in tab.text("#job-head")
    tab.confirm("Let expire")
    assert not recorded(world, DONE).get("kept")
    assert "Kept by" not in tab.text("#job-head")


def test_pin_as_baseline_then_unpin(world: Hub, open_tab: OpenTab) -> None:
    uid = world.get("fournosjob", DONE)["metadata"]["uid"]
    tab = open_tab(job_page(world, DONE))
    tab.press(tab.page.get_by_role("link", name="Trends"))
    tab.confirm("Pin as baseline", reason="the release")
    baseline = recorded(world, DONE, "/results/trends")["baseline"]
    assert (baseline["run"]["identity"]["uid"], baseline["reason"]) == (uid, "the release")
    assert "the release" in tab.text(".summary")
    tab.confirm("Unpin the baseline")
    assert not recorded(world, DONE, "/results/trends").get("baseline")


# --- clusters ------------------------------------------------------------------------------------


@pytest.fixture
def cluster(world: Hub) -> Iterator[str]:
    """A cluster that is neither locked nor drained, before and after."""
    yield f"/clusters/{CLUSTER}"
    patch = json.dumps({"spec": {"owner": None, "ttl": None, "drain": None}})
    world.kubectl("-n", CLUSTERS, "patch", "fournoscluster", CLUSTER, "--type=merge", "-p", patch)


def cluster_spec(hub: Hub) -> dict[str, Any]:
    words = ("-n", CLUSTERS, "get", "fournoscluster", CLUSTER, "-o", "jsonpath={.spec}")
    found: dict[str, Any] = json.loads(hub.kubectl(*words))
    return found


@SCRIPTS
def test_lock_then_unlock(scripts: bool, cluster: str, world: Hub, open_tab: OpenTab) -> None:
    tab = open_tab(cluster, java_script_enabled=scripts)
    tab.one("input[name=owner]").fill("dee")
    tab.one("input[name=ttl]").fill("4h")
    tab.press("Lock")
    found = cluster_spec(world)
    assert (found["owner"], found["ttl"]) == ("dee", "4h"), found
    assert "dee" in tab.notice and "dee" in tab.text("#cluster-lock")
    tab.confirm("Unlock")
    assert not cluster_spec(world).get("owner")
    assert "No lock" in tab.text("#cluster-lock")


def test_drain_then_end_the_drain(cluster: str, world: Hub, open_tab: OpenTab) -> None:
    tab = open_tab(cluster)
    tab.confirm("Drain")
    assert cluster_spec(world)["drain"] == "Wait"
    tab.press("End the drain")
    assert not cluster_spec(world).get("drain")
    form = tab.offer("Drain")
    form.locator("input[name=stop]").check()
    tab.press(form.locator("button:not([type])"))
    assert cluster_spec(world)["drain"] == "Stop"
    assert "shut down" in tab.notice
    tab.press("Count the GPUs again")
    assert "counted again" in tab.notice


# --- submit --------------------------------------------------------------------------------------


def fill(tab: Tab, **values: str) -> None:
    """Writes into the form of a new job; a `__` in a name stands for a dot."""
    for name, value in values.items():
        field = tab.one(f'[name="{name.replace("__", ".")}"]')
        if field.evaluate("(one) => one.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)


@SCRIPTS
def test_a_job_is_previewed_and_submitted(scripts: bool, world: Hub, open_tab: OpenTab) -> None:
    name = f"web-form-{scripts}".lower()
    tab = open_tab("/submit", java_script_enabled=scripts)
    assert tab.one("[name=owner]").input_value() == "ann"
    fill(tab, name=name, pipeline="fournos-run-only", cluster="cluster-1", exclusive="false")
    fill(tab, hardware__gpuType="a100", hardware__gpuCount="1", executionEngine="forge: {project: mock}")
    fill(tab, namespace=world.namespace)
    tab.press("Preview")
    assert "It would be submitted" in tab.text("main [role=status]")
    assert name in tab.text("pre.code")
    assert not world.exists("fournosjob", name)
    if scripts:
        tab.is_accessible()
    tab.press("Submit")
    spec = shown_job(world, tab)["spec"]
    assert spec["owner"] == "ann" and spec["hardware"] == {"gpuType": "a100", "gpuCount": 1}
    assert spec["executionEngine"] == {"forge": {"project": "mock"}} and spec["exclusive"] is False
    assert name in tab.notice


def refused_at(tab: Tab, field: str) -> None:
    """The message is at the field, and a link above leads there."""
    assert tab.one(f'[id="field-{field}"]').get_attribute("aria-invalid") == "true", field
    assert tab.one(f'[id="wrong-{field}"]').is_visible()
    assert tab.one(f'a[href="#field-{field}"]').count() == 1


def test_what_the_api_server_would_refuse_is_shown_at_its_field(world: Hub, open_tab: OpenTab) -> None:
    tab = open_tab("/submit")
    tab.expected = ("status of 422",)
    fill(tab, displayName="typed", executionEngine="[]")
    tab.press("Submit")
    refused_at(tab, "executionEngine")
    fill(tab, executionEngine="forge: {project: mock}")
    tab.press("Submit")
    refused_at(tab, "cluster")
    assert tab.one("[name=displayName]").input_value() == "typed"
    tab.is_accessible()
    # What only the API server knows is shown with the form, too: nothing that was typed is lost.
    fill(tab, name="Not a name", pipeline="web-fails", cluster="cluster-1", exclusive="false")
    fill(tab, hardware__gpuType="a100", hardware__gpuCount="1", namespace=world.namespace)
    tab.press("Submit")
    refused_at(tab, "metadata.name")
    tab.expected += ("status of 409",)
    fill(tab, name=BROKEN)
    tab.press("Submit")
    refused_at(tab, "metadata.name")
    assert "already exists" in tab.text("main") and tab.one("[name=name]").input_value() == BROKEN
    assert tab.one("[name=displayName]").input_value() == "typed"
