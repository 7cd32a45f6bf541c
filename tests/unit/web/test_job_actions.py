"""The buttons of a job: what they change, and what they refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.errors import FournosError
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Key
from fournos.history.records import Detail, KeepMark, body
from fournos.web.errors import PageError
from fournos.web.pages import job
from fournos.web.pages import job as actions
from fournos.web.pages.job import offers
from fournos.web.runs.subject import JobSubject
from tests.history import a_run, at, ended
from tests.unit.client.world import NS, SPEC, Api
from tests.unit.web.page import Visit, visit

RUNS = f"/apis/history.fournos.dev/v1/namespaces/{NS}/runs"
ALL = {"stop", "hold", "unhold", "retry", "delete", "keep", "release", "forget"}


async def a_job(api: Api, phase: str = "Running", name: str = "one") -> dict[str, str]:
    """Returns the form of a button on its page."""
    await api.create(
        FOURNOS_JOB, {"metadata": {"name": name, "namespace": NS}, "spec": {**SPEC, "owner": "ann"}}
    )
    api.set(name, phase)
    return {"uid": api.job(name)["metadata"]["uid"]}


async def act(here: Visit, action: Any, form: dict[str, str]) -> Any:
    return await action(here.call(name="one"), form)


async def test_stop_writes_shutdown() -> None:
    api = Api()
    form = await a_job(api)
    async with visit(api) as here:
        done = await act(here, actions.stop, form)
        assert (done.location, api.job("one")["spec"]["shutdown"]) == (f"/jobs/{NS}/one", "Stop")
        assert done.notice == "one: stopping, its finally tasks run."
        await act(here, actions.stop, {**form, "now": "yes"})
        assert api.job("one")["spec"]["shutdown"] == "Terminate"


async def test_a_job_is_held_and_released() -> None:
    api = Api()
    form = await a_job(api, "Pending")
    async with visit(api) as here:
        done = await act(here, actions.hold, form)
        assert (done.notice, api.job("one")["spec"]["suspend"]) == ("one is held: it leaves the queue.", True)
        done = await act(here, actions.unhold, form)
        assert (done.location, api.job("one")["spec"]["suspend"]) == (f"/jobs/{NS}/one", False)


async def test_delete_deletes_that_job() -> None:
    api = Api()
    form = await a_job(api)
    async with visit(api) as here:
        assert (await act(here, actions.delete, form)).location == "/jobs"
    assert api.server.find(FOURNOS_JOB, Key(NS, "one")) is None


@pytest.mark.parametrize("action", [actions.stop, actions.delete, actions.retry])
async def test_another_job_of_the_same_name_is_left_alone(action: Any) -> None:
    api = Api()
    await a_job(api, "Failed")
    before = api.job("one")
    async with visit(api) as here:
        with pytest.raises((PageError, FournosError, KubeError)):
            await act(here, action, {"uid": "of-an-earlier-job"})
    assert api.job("one") == before
    assert len(api.server.list(FOURNOS_JOB)) == 1


async def test_retry_submits_the_spec_of_an_ended_job() -> None:
    api = Api()
    form = await a_job(api, "Failed")
    async with visit(api) as here:
        done = await act(here, actions.retry, form)
    name = done.location.rpartition("/")[2]
    assert api.job(name)["spec"] == api.job("one")["spec"]
    assert "is submitted with the spec of one" in done.notice


async def test_retry_of_a_job_that_runs_is_refused() -> None:
    api = Api()
    form = await a_job(api)
    async with visit(api) as here:
        with pytest.raises(PageError, match="has not ended"):
            await act(here, actions.retry, form)


def about(spec: dict[str, Any], phase: str = "Running", *, live: bool = True) -> JobSubject:
    meta = {"name": "one", "namespace": NS, "uid": "u1", "creationTimestamp": "2030-01-01T00:00:00Z"}
    return JobSubject({"metadata": meta, "spec": spec, "status": {"phase": phase}}, live)


# --- the history ---------------------------------------------------------------------


class Recording(Api):
    """Has one run, which is gone, and notes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[str, str, Any]] = []
        run = ended(a_run(1, name="one"))
        self.run = replace(run, identity=replace(run.identity, namespace=NS, uid="uid-gone"))
        raw = about({**SPEC, "owner": "ann"}, "Succeeded").raw
        raw = {**raw, "metadata": {**raw["metadata"], "uid": "uid-gone"}}
        self.stored = {f"{RUNS}/uid-gone/documents/object": json.dumps(raw).encode()}
        self.keep(None)

    def keep(self, mark: KeepMark | None) -> None:
        detail = body(Detail(self.run, kept=mark), Detail)
        for asked in ("uid-gone", "uid-gone?kind=FournosJob", "one?kind=FournosJob"):
            self.stored[f"{RUNS}/{asked}"] = detail

    async def raw(self, method: str, path: str, *given: Any, **more: Any) -> bytes:
        if method != "GET":
            self.written.append((method, path, given[0] if given else None))
            return b""
        return await super().raw(method, path, *given, **more)


GONE = {"uid": "uid-gone"}


async def test_keep_release_and_delete_in_the_history() -> None:
    api = Recording()
    async with visit(api) as here:
        await act(here, actions.keep, {**GONE, "reason": "baseline"})
        await act(here, actions.release, GONE)
        await act(here, actions.forget, GONE)
    assert api.written == [
        ("PUT", f"{RUNS}/uid-gone/keep", {"reason": "baseline"}),
        ("DELETE", f"{RUNS}/uid-gone/keep", None),
        ("DELETE", f"{RUNS}/uid-gone", None),
    ]


async def test_a_mark_of_keep_is_shown_and_can_be_taken_away() -> None:
    api = Recording()
    async with visit(api) as here:
        html = await here.show(job.PAGE, {"uid": "uid-gone"}, name="one")
        assert "one/keep" in html and "one/release" not in html and "Kept by" not in html
        api.keep(KeepMark("ann", at(0), "v1 <release>"))
        here.site.memo.clear()  # as the server does after a write
        html = await here.show(job.PAGE, {"uid": "uid-gone"}, name="one")
        assert "one/keep" not in html and "one/release" in html
        assert "Kept by ann" in html and "v1 &lt;release&gt;" in html


async def test_a_job_that_is_gone_is_retried_from_the_history() -> None:
    api = Recording()
    async with visit(api) as here:
        done = await act(here, actions.retry, GONE)
    assert api.job(done.location.rpartition("/")[2])["spec"] == {**SPEC, "owner": "ann"}


async def test_a_job_that_is_gone_is_not_stopped() -> None:
    async with visit(Recording()) as here:
        with pytest.raises(PageError, match="is gone"):
            await act(here, actions.stop, GONE)


# --- which buttons are shown ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "shown"),
    [
        (about({}), ["Stop", "Stop now", "Hold", "Keep", "Let expire", "Delete"]),
        (about({"suspend": True}), ["Stop", "Stop now", "Release", "Keep", "Let expire", "Delete"]),
        (about({"shutdown": "Stop"}, "Stopping"), ["Stop now", "Keep", "Let expire", "Delete"]),
        (about({"shutdown": "Terminate"}, "Stopping"), ["Keep", "Let expire", "Delete"]),
        (about({}, "Failed"), ["Retry", "Keep", "Let expire", "Delete"]),
        (about({}, "Failed", live=False), ["Retry", "Keep", "Let expire", "Delete from the history"]),
    ],
)
def test_buttons_by_state(subject: JobSubject, shown: list[str]) -> None:
    assert [one.label for one in offers(subject, ALL)] == shown


def test_buttons_without_the_right_are_not_shown() -> None:
    assert [one.label for one in offers(about({}), {"delete"})] == ["Delete"]
    assert [one.name for one in offers(about({}, "Failed"), set())] == []


def test_the_command_is_quoted() -> None:
    raw = about({}).raw
    raw = {**raw, "metadata": {**raw["metadata"], "name": "a; rm -rf /"}}
    assert offers(JobSubject(raw, live=True), ALL)[0].command == f"fournos stop -n {NS} 'a; rm -rf /'"
