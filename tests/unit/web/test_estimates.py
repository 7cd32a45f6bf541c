"""Estimates on the page are those of the command line, in the same words."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fournos.engine.kube.errors import InvalidError, KubeError, NotFoundError
from fournos.history.api.wire import body
from fournos.history.estimates.models import Estimates
from fournos.history.estimates.simulate import Estimate, WouldStart
from fournos.web.pages import job as job_page
from fournos.web.pages import submit
from fournos.web.site import ShownPage
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NS, job
from tests.unit.cli.test_estimate import FOUND, ONE, PATH, SUBMIT, waiting
from tests.unit.web.calls import call, render, text

FORM = {"owner": "me", "cluster": "cluster-1", "executionEngine": "forge: {project: p}", "do": "preview"}
HERE = {"namespace": NS, "name": "one"}


def with_events(api: Api) -> Api:
    """An API server that lists Events by a field."""
    plain = api.list

    async def listed(resource: Any, *, fields: str = "", **more: Any) -> Any:
        return await plain(resource, **more)

    api.list = listed  # type: ignore[method-assign]
    return api


async def previewed(api: Api, **form: str) -> str:
    found = await submit.act(call(api), {**FORM, **form})
    assert isinstance(found, ShownPage) and found.status == 200
    return text(render(found.page, found.data))


@pytest.mark.parametrize(
    "answer",
    [
        WouldStart(True, "cluster-1", FOUND),
        WouldStart(False, "", FOUND),
        WouldStart(False, "", Estimate(None, None, reason="its queue is stopped")),
    ],
)
def test_the_preview_says_what_fournos_estimate_says(
    answer: WouldStart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURNOS_KUEUE_LOCAL_QUEUE_NAME", "own-queue")
    asked: list[Any] = []

    class Asked(Api):
        async def raw(self, method: str, path: str, *given: Any, **more: Any) -> bytes:
            asked.append(given[0])
            return await super().raw(method, path)

    api = Asked()
    api.stored = {PATH: body(answer, WouldStart)}
    said = Program(api)("estimate", *SUBMIT).stdout.strip()
    assert said and said in asyncio.run(previewed(api))
    assert asked[0] == asked[1] and asked[0]["queue"] == "own-queue"
    assert f"The first one: {said}" in asyncio.run(previewed(api, matrix="displayName=a,b"))


def test_the_page_of_a_job_that_waits_says_what_fournos_explain_says() -> None:
    api = with_events(waiting())
    api.stored = {f"{PATH}/uid-one": body(Estimates((ONE,)), Estimates)}
    said = Program(api)("explain", "one").stdout.partition("Estimate\n")[2].strip()

    async def shown() -> str:
        data = await job_page.gather(call(api, path=HERE))
        return text(render(job_page.PAGE, data))

    assert said and said in asyncio.run(shown())


async def test_an_open_tab_asks_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    api = with_events(waiting())
    api.stored = {f"{PATH}/uid-one": body(Estimates((ONE,)), Estimates)}
    here = call(api, path=HERE)
    now = asyncio.get_running_loop().time()

    async def asked(after: float) -> int:
        api.raw_requests.clear()
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now + after)
        found = await job_page.gather(here)
        assert found["estimate"]
        return sum("/estimates/" in path for _, path in api.raw_requests)

    assert [await asked(after) for after in (0, 29, 31)] == [1, 0, 1]


async def test_a_job_that_does_not_wait_costs_no_estimate() -> None:
    api = with_events(Api(job("one", "Running")))
    found = await job_page.gather(call(api, path=HERE))
    assert found["estimate"] == "" and not any("/estimates" in path for _, path in api.raw_requests)


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (InvalidError("the quota of <b>q</b> is not known", status=422), "No estimate: the quota of &lt;b"),
        (NotFoundError("no such thing", status=404), ""),
        (None, ""),
    ],
)
async def test_why_there_is_no_estimate(error: KubeError | None, shown: str) -> None:
    class Refusing(Api):
        async def raw(self, *_: Any, **__: Any) -> bytes:
            if error:
                raise error
            return b"{"  # of another version

    found = await submit.act(call(Refusing()), FORM)
    assert isinstance(found, ShownPage)
    html = render(found.page, found.data)
    assert "1 job would be submitted" in html
    assert shown in html if shown else "estimate" not in html
