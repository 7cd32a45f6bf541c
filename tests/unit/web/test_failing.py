"""The page of a job that failed: the line of the log that shows why."""

from __future__ import annotations

from fournos.api.kinds import TASK_RUN
from fournos.engine.kube.resource import Key
from fournos.history.logs.stored import ContainerLog
from fournos.web.pages import job
from tests.history import at, keep_logs
from tests.unit.client.world import NS, Api
from tests.unit.web.page import visit
from tests.unit.web.test_job import TIMES
from tests.unit.web.test_job_actions import RUNS
from tests.unit.web.test_logs import a_run


async def a_failed_task(api: Api, lines: list[str]) -> None:
    await a_run(api, lines)
    verdict = {
        "type": "Succeeded",
        "status": "False",
        "reason": "Failed",
        "message": '"step-run" exited with code 1',
    }
    bench = Key(NS, "one-bench")
    status = {"podName": "one-bench-pod", "completionTime": TIMES["finished"], "conditions": [verdict]}
    api.server.patch(TASK_RUN, bench, {"status": status}, subresource="status")
    api.set("one", "Failed", phaseTimes=TIMES, message="Tasks Completed: 1 (Failed: 1)")


async def test_what_failed_begins_with_the_error_of_the_task_itself() -> None:
    api = Api()
    await a_failed_task(api, ["ok", "RuntimeError: <no> GPU", "bye"])
    async with visit(api) as here:
        html = (await here.show(job.PAGE, name="one")).split("What failed")[1].split("Timeline")[0]
    assert html.index("RuntimeError: &lt;no&gt; GPU") < html.index("exited with code 1")
    assert html.index("exited with code 1") < html.index("Tasks Completed: 1")
    assert html.count("exited with code 1") == 1, "the reasons repeat the error"


async def test_what_failed_is_the_line_that_the_history_has_found() -> None:
    api = Api()
    await a_failed_task(api, ["another line"])
    uid = api.job("one")["metadata"]["uid"]
    log = ContainerLog("pod", "u", "step-run", "bench", 1, 0, at(0), at(9), 1, 9, False, 7, "fatal: x")
    keep_logs(api.stored, f"{RUNS}/{uid}", {log: ""})
    async with visit(api) as here:
        html = (await here.show(job.PAGE, name="one")).split("What failed")[1].split("Timeline")[0]
    assert html.index("fatal: x") < html.index("exited with code 1")
    assert "another line" not in html


async def test_an_open_tab_looks_for_the_failing_line_once() -> None:
    api = Api()
    await a_failed_task(api, ["RuntimeError: first"])
    async with visit(api) as here:
        for _ in range(2):
            data = await job.PAGE.gather(here.call(name="one"))
            assert data["error_line"] == "RuntimeError: first"
            api.server.logs[Key(NS, "one-bench-pod")] = ["RuntimeError: other"]
