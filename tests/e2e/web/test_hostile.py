"""Texts that other people choose: markup, control characters, marks of direction, and very long words.

No API server takes all of these names, and none should matter: the page shows them as text.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.history.fingerprint import fingerprint
from fournos.history.records import Document, Ending, Identity, Record, Run
from tests.e2e.web import lab
from tests.e2e.web.conftest import OpenTab
from tests.e2e.web.served import Served
from tests.e2e.web.staged import CLUSTERS, NOW, NS, Stage, ago, staged
from tests.unit.cli.objects import cluster_queue, local_queue

SCRIPT: Final = (
    "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>'\"--></title></textarea>{{7*7}}"
)
STEERING: Final = "\x1b[31mred\x1b[0m\x00\x07\u202egnp.exe\u2066\u200b\ufeff"
LONG: Final = "w" * 3000
EVIL: Final = f"{SCRIPT}{STEERING}{LONG}"
NAME: Final = f"job<b>&\"'{'n' * 240}"
CLUSTER: Final = f"c<i>{'c' * 240}"
FILE: Final = f"<img src=x>{'f' * 180}.html"
UID: Final = "00000000-0000-4000-8000-000000000666"


async def hostile(stage: Stage) -> None:
    status: dict[str, Any] = {
        "message": EVIL, "pipelineRun": "run", "dashboardURL": f"javascript:{SCRIPT}",
        "attempts": [{"number": 1, "pipelineRun": "run", "startedAt": ago(minutes=50), "cluster": EVIL,
                      "finishedAt": ago(minutes=5), "outcome": EVIL, "message": EVIL}],
    }  # fmt: skip
    times = {"pending": 60.0, "running": 50.0, "finished": 5.0}
    made = lab.job(
        stage, NAME, "Failed", times, cluster=CLUSTER, owner=EVIL, gpu=EVIL[:63], displayName=EVIL,
        priority=EVIL, env={SCRIPT: EVIL, LONG: ""}, labels={SCRIPT: EVIL}, status=status, uid=UID,
    )  # fmt: skip
    tasks = [("a", 50.0, 40.0, "Succeeded"), (SCRIPT, 40.0, 10.0, "Failed"), (LONG, 10.0, 5.0, "Succeeded")]
    lab.tasks(stage, made, tasks, [SCRIPT, STEERING, EVIL, "a\tb", ""])
    lab.job(stage, "waits<b>", "Pending", {"pending": 9.0}, owner=EVIL, status={"message": EVIL})
    stage.objects.put(WORKLOAD, lab.workload("waits<b>", "uid-waits<b>", EVIL))
    lab.job(
        stage, "runs<b>", "Running", {"running": 9.0}, owner=EVIL, cluster=CLUSTER, status={"message": EVIL}
    )
    stage.objects.put(LOCAL_QUEUE, {**local_queue(), "metadata": {"name": "fournos-queue", "namespace": NS}})
    stage.objects.put(CLUSTER_QUEUE, cluster_queue({CLUSTER: {f"fournos/gpu-{LONG}": (8, 2)}}))
    stage.objects.put(RESOURCE_FLAVOR, {"metadata": {"name": CLUSTER}, "spec": {}})
    gpu = {"vendor": SCRIPT, "model": EVIL, "shortName": EVIL[:63], "count": 8, "nodeCount": 1}
    condition = {
        "type": SCRIPT,
        "status": EVIL,
        "reason": EVIL,
        "message": EVIL,
        "lastTransitionTime": ago(hours=1),
    }
    stage.objects.put(
        FOURNOS_CLUSTER,
        {
            "metadata": {"name": CLUSTER, "namespace": CLUSTERS},
            "spec": {"owner": EVIL, "kubeconfigSecret": EVIL},
            "status": {
                "kubeconfigStatus": EVIL,
                "lock": {"state": "Requested", "owner": EVIL, "behind": [EVIL, LONG]},
                "connection": {"error": EVIL, "version": EVIL},
                "hardware": {"gpus": [gpu], "lastError": EVIL},
                "conditions": [condition],
            },
        },
    )
    lab.event(stage, made, 5, EVIL, EVIL, EVIL)
    await _recorded(stage, made)


async def _recorded(stage: Stage, made: Any) -> None:
    what = fingerprint({"pipeline": "p"}, None, "c")
    run = Run(
        identity=Identity("here", NS, UID), kind="FournosJob", name=NAME, namespace_uid=f"uid-{NS}",
        submitted_at=NOW - timedelta(hours=1), observed_at=NOW, resource_version=1, phase="Failed",
        message=EVIL, owner=EVIL, display_name=EVIL, target=EVIL, ended_at=NOW,
        ending=Ending.OBSERVED, fingerprint=what.id,
    )  # fmt: skip
    provenance = {"fingerprint": what.as_data(), "engine": {LONG: EVIL, SCRIPT: SCRIPT}}
    await stage.store.record(Record(run, {Document.OBJECT: made, Document.PROVENANCE: provenance}))
    kpis = [
        {"kpi_id": SCRIPT, "value": 1.5, "unit": SCRIPT},
        {"kpi_id": "w" * 200, "values": [[1, 2], [3, 4]], "x_unit": SCRIPT, "y_unit": "w" * 60},
    ]
    file = {"tests": [{"labels": {SCRIPT: SCRIPT, "w" * 100: "w" * 200}, "kpis": kpis}]}
    await stage.history.push_results(json.dumps(file).encode(), filename="r.json", name=UID)
    await stage.history.push_artifact(io.BufferedReader(io.BytesIO(SCRIPT.encode())), FILE, name=UID)
    await stage.history.keep(run, reason=SCRIPT)


@pytest.fixture(scope="module")
def served(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with staged(hostile, tmp_path_factory.mktemp("hostile")) as found:
        yield found.served(browser)


JOB: Final = f"/jobs/{NS}/{quote(NAME, safe='')}"
PAGES: Final = {
    "fleet": "/",
    "cluster": f"/clusters/{quote(CLUSTER, safe='')}",
    "queue": "/queue",
    "jobs": f"/jobs?text={quote(SCRIPT)}&owner={quote(EVIL[:150])}",
    "all jobs": "/jobs",
    "job": JOB,
    "logs": f"{JOB}/logs",
    "found lines": f"{JOB}/logs?q={quote(SCRIPT[:40])}",
    "submit": f"/submit?from={NS}/{quote(NAME, safe='')}&name={quote(SCRIPT)}",
    "compare": f"/compare?job={NS}/{UID}&job={NS}/{quote(SCRIPT)}",
    "trends": f"/trends/{NS}/{UID}",
    "benchmarks": f"/benchmarks?owner={quote(SCRIPT)}",
    "all benchmarks": "/benchmarks",
    "usage": "/usage",
    "kinds": "/kinds",
}
STATUS: Final = {"compare": 422}
OPEN: Final = "() => { for (const one of document.querySelectorAll('details')) one.open = true; }"


@pytest.mark.parametrize("name", PAGES)
def test_nothing_runs_and_the_layout_holds(name: str, served: Served, open_tab: OpenTab) -> None:
    tab = open_tab("", served=served, phone=True)
    tab.expected = ("status of 422",)
    tab.goto(PAGES[name], status=STATUS.get(name, 200))
    tab.page.evaluate(OPEN)
    tab.does_not_scroll_sideways()
    tab.page.set_viewport_size({"width": 1280, "height": 900})
    tab.does_not_scroll_sideways()
    tab.is_accessible()
    assert tab.page.evaluate("() => window.hacked") is None
    assert tab.one("main script:not([src]), main img, main b, main i, a[href^='javascript:']").count() == 0
    assert tab.one("h1").count() == 1


def test_a_file_is_saved_and_never_shown(served: Served, open_tab: OpenTab) -> None:
    tab = open_tab(JOB, served=served)
    with tab.page.expect_download() as found:
        tab.one("#job-artifacts a[download]").click()
    assert found.value.suggested_filename.endswith(".html") and "/" not in found.value.suggested_filename
    assert Path(found.value.path()).read_text() == SCRIPT
    # Without the attribute of the link, too.
    with tab.page.expect_download():
        tab.page.evaluate("() => { location = document.querySelector('#job-artifacts a[download]').href; }")
