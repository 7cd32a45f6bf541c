"""The log of a job: which part is shown, the file, and text that would steer a page."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN, TASK_RUN
from fournos.client.logs import LogLine
from fournos.engine.kube.resource import POD, Key, Obj, Resource
from fournos.web.errors import PageError
from fournos.web.pages import logs
from fournos.web.pages.logs import LONGEST, MATCHES, Window, plain
from fournos.web.runs.subject import part
from fournos.web.site import Content
from tests.unit.client.world import NS, SPEC, Api
from tests.unit.web.page import show, visit


def fed(window: Window, *texts: str) -> Window:
    for text in texts:
        window.feed(LogLine("bench", text))
    return window


NUMBERS = [f"line {number}" for number in range(1, 101)]


@pytest.mark.parametrize(
    ("most", "first", "shown"),
    [(10, 0, (91, 100)), (10, 1, (1, 10)), (10, 95, (95, 100)), (200, 0, (1, 100))],
)
def test_the_part_that_is_shown(most: int, first: int, shown: tuple[int, int]) -> None:
    window = fed(Window(most, first), *NUMBERS)
    assert (window.start, window.end, window.total) == (*shown, 100)


def test_a_part_beyond_the_end_is_empty() -> None:
    window = fed(Window(10, 500), *NUMBERS)
    assert (window.start, window.end, window.total) == (0, 0, 100)


def test_notices_have_no_number() -> None:
    window = Window(10)
    window.feed(LogLine("bench", "a"))
    window.feed(LogLine("bench", "its pod is gone", notice=True))
    window.feed(LogLine("bench", "b"))
    assert [line.number for line in window.kept] == [1, 0, 2]
    assert (window.start, window.end) == (1, 2)


@pytest.mark.parametrize(
    ("texts", "failed", "error"),
    [
        (["ok", "RuntimeError: CUDA out of memory", "FATAL"], True, 2),
        (["ok", "Traceback (most recent call last):", "  File x", "ValueError: no", "FATAL"], True, 4),
        (["0 errors", "ok", ""], True, 2),
        (["ok", "ERROR: cannot bind"], False, 0),
        ([], True, 0),
    ],
)
def test_the_first_error_of_a_job_that_failed(texts: list[str], failed: bool, error: int) -> None:
    assert fed(Window(10, failed=failed), *texts).error == error


def test_search_is_bounded_and_ignores_case() -> None:
    window = fed(Window(1, search="LINE 1"), *NUMBERS)
    assert [one.number for one in window.matches] == [1, *range(10, 20), 100]
    many = fed(Window(1, search="x"), *["x"] * (MATCHES + 3))
    assert (len(many.matches), many.more_matches) == (MATCHES, 3)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;32mok\x1b[0m\r", "ok"),
        ("\x1b]0;title\x07text", "text"),
        ("a\tb", "a    b"),
        ("a\x00b\u202ec", r"a\x00b\u202ec"),
        ("<b>", "<b>"),
    ],
)
def test_text_that_would_steer_a_terminal_or_a_page(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_a_long_line_is_cut() -> None:
    assert plain("x" * (LONGEST + 5)).endswith("x… (5 characters more: download the log)")


# --- the page and the file ---------------------------------------------------------------------


async def child(api: Api, kind: Resource, name: str, owner: Obj, status: Any, **labels: str) -> Obj:
    meta = {
        "name": name,
        "namespace": NS,
        "labels": {"fournos.dev/job-name": "one", **labels},
        "ownerReferences": [{"uid": owner["metadata"]["uid"], "kind": "X", "name": "x"}],
    }
    await api.create(kind, {"metadata": meta, "spec": {"containers": [{"name": "step-run"}]}})
    return api.server.patch(kind, Key(NS, name), {"status": status}, subresource="status")


async def a_run(lines: list[str], api: Api | None = None) -> Api:
    """An ended job with one task that has printed these lines."""
    api = api or Api()
    job = await api.create(
        FOURNOS_JOB, {"metadata": {"name": "one", "namespace": NS}, "spec": {**SPEC, "owner": "ann"}}
    )
    api.set("one", "Failed", pipelineRun="one", attempts=[{"number": 1, "pipelineRun": "one"}])
    run = await child(api, PIPELINE_RUN, "one", job, {"pipelineSpec": {"tasks": [{"name": "bench"}]}})
    labels = {"tekton.dev/pipelineRun": "one", "tekton.dev/pipelineTask": "bench"}
    started = {"startTime": "2030-01-01T00:00:00Z"}
    task = await child(api, TASK_RUN, "one-bench", run, started, **labels)
    running = {"containerStatuses": [{"name": "step-run", "state": {"terminated": {}}}]}
    await child(api, POD, "one-bench-pod", task, running, **labels)
    api.server.logs[Key(NS, "one-bench-pod")] = lines
    return api


async def text_of(content: Content) -> str:
    return b"".join([piece async for piece in content.pieces]).decode()


async def test_the_page_without_scripts() -> None:
    api = await a_run([f"line <{number}>" for number in range(1, 1301)])
    async with visit(api) as here:
        html = await here.show(logs.PAGE, name="one")
        assert '<option value="">the tasks</option><option value="yes">the resolver</option>' in html
        resolver = await here.show(logs.PAGE, {"resolver": "yes"}, name="one")
        assert '<option value="yes" selected>the resolver</option>' in resolver
        assert 'id="L1300"' in html and 'id="L801"' in html and 'id="L800"' not in html
        assert "line &lt;1300&gt;" in html
        assert f'href="/jobs/{NS}/one/logs?from=301"' in html, "earlier lines"
        earlier = await here.show(logs.PAGE, {"from": "301"}, name="one")
        assert 'id="L301"' in earlier and 'id="L800"' in earlier and 'id="L801"' not in earlier
        assert f'href="/jobs/{NS}/one/logs?from=801"' in earlier, "later lines"
        one = await here.show(logs.PAGE, {"line": "700"}, name="one")
        assert '<li id="L700" class="target">' in one
        found = await here.show(logs.PAGE, {"q": "<77>"}, name="one")
        assert f'href="/jobs/{NS}/one/logs?line=77#L77"' in found and "line &lt;77&gt;" in found
        assert "<option>bench</option>" in found


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ({}, ""),
        ({"task": "bench", "attempt": "1"}, " --task bench --attempt 1"),
        ({"task": "a b"}, " --task &#39;a b&#39;"),
        ({"resolver": "yes", "task": "bench"}, " --resolver"),
    ],
)
async def test_the_command_prints_the_lines_that_are_chosen(query: dict[str, str], options: str) -> None:
    api = await a_run(["x"])
    html = await show(api, logs.PAGE, query, name="one")
    assert f"<code>fournos logs -f -n {NS} one{options}</code>" in html


async def test_an_open_tab_of_a_job_that_runs_reads_the_last_lines() -> None:
    api = await a_run([f"line {number}" for number in range(1, 1301)])
    api.set("one", "Running", pipelineRun="one", attempts=[{"number": 1, "pipelineRun": "one"}])
    async with visit(api) as here:
        data = await logs.PAGE.gather(here.call(name="one"))
        html = here.site.renderer.content("logs", data)
        assert not data["lasts"] and "line 1300" in html and "line 801" in html
        assert "line 800<" not in html and 'id="L' not in html, "their numbers are not known"
        assert f'href="/jobs/{NS}/one/logs?from=1"' in html
        data = await logs.PAGE.gather(here.call({"from": "1"}, name="one"))
        assert data["lasts"] and 'id="L1"' in here.site.renderer.content("logs", data)


async def test_the_page_leads_to_the_first_error() -> None:
    api = await a_run(["ok"] * 41 + ["ValueError: no"])
    html = await show(api, logs.PAGE, name="one")
    assert f'href="/jobs/{NS}/one/logs?line=42#L42">First error: line 42' in html


async def test_the_file_is_what_was_printed() -> None:
    api = await a_run(["\x1b[1ma", "x" * (LONGEST + 1)])
    async with visit(api) as here:
        content = await logs.open_file(here.call({"task": "bench"}, name="one"))
        assert content.filename == "one-bench.log"
        assert await text_of(content) == f"[bench] \x1b[1ma\n[bench] {'x' * (LONGEST + 1)}\n"


@pytest.mark.parametrize("query", [{"from": "-1"}, {"line": "x"}, {"attempt": "1e9"}, {"from": "9" * 40}])
async def test_numbers_that_are_none_are_refused(query: dict[str, str]) -> None:
    api = await a_run([])
    async with visit(api) as here:
        with pytest.raises(PageError, match="is not a number"):
            await here.show(logs.PAGE, query, name="one")


async def test_a_job_without_a_log_says_why() -> None:
    api = Api()
    await api.create(FOURNOS_JOB, {"metadata": {"name": "one", "namespace": NS}, "spec": SPEC})
    api.set("one", "Pending")
    async with visit(api) as here:
        assert "no task has begun" in await here.show(logs.PAGE, name="one")
        with pytest.raises(Exception, match="no task has begun"):
            await text_of(await logs.open_file(here.call(name="one")))


async def test_a_part_that_is_late_is_named() -> None:
    import asyncio

    found = await part(asyncio.Event().wait(), patience=0.001)
    assert found.problem is not None and found.problem.status == 504
