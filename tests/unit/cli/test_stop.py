"""fournos stop, hold, release and delete: what is written, and truthful answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import ago, job


def patch(name: str, **spec: Any) -> tuple[Any, ...]:
    """A change of what was read alone."""
    return (
        "patch",
        f"bench/{name}",
        {"metadata": {"uid": f"uid-{name}", "resourceVersion": "1"}, "spec": spec},
    )


@pytest.mark.parametrize(("arguments", "word"), [((), "Stop"), (("--now",), "Terminate")])
def test_stopping_writes_the_shutdown(arguments: tuple[str, ...], word: str) -> None:
    api = Api(job("one", "Running"))
    result = Program(api)("stop", "one", *arguments)
    assert result.exit_code == 0
    assert api.writes == [patch("one", shutdown=word)]


def test_stop_may_be_raised_but_never_lowered() -> None:
    stopping, terminating = (
        Api(job("one", "Stopping", spec={"shutdown": word})) for word in ("Stop", "Terminate")
    )
    assert "already (Stop)" in Program(stopping)("stop", "one").stdout
    assert stopping.writes == []
    Program(stopping)("stop", "--now", "one")
    assert stopping.writes == [patch("one", shutdown="Terminate")]
    assert "terminated already" in Program(terminating)("stop", "one").stdout
    assert terminating.writes == []


def test_jobs_that_have_ended_are_named_and_the_others_are_stopped() -> None:
    api = Api(
        job("over", "Failed", status={"phaseTimes": {"finished": ago(minutes=5)}}), job("one", "Pending")
    )
    result = Program(api)("stop", "over", "one", "one")
    assert result.exit_code == 7
    assert "over has ended already: Failed 5m ago. Nothing to stop." in result.stderr
    assert [write[1] for write in api.writes] == ["bench/one"]


def test_a_job_is_held_once_and_released_once() -> None:
    api = Api(job("one", "Pending"), job("two", "Running", spec={"suspend": True}), job("over", "Failed"))
    result = Program(api)("hold", "one", "two", "over")
    assert result.exit_code == 7
    assert result.stdout == (
        "one is held: it leaves the queue. Queue it again: fournos release one\ntwo is held already.\n"
    )
    assert "over has ended already: Failed. Nothing to hold." in result.stderr
    result = Program(api)("release", "two")
    assert (result.exit_code, result.stdout) == (0, "two is released: it is queued again.\n")
    assert api.writes == [
        patch("one", suspend=True),
        patch("two", suspend=False),
    ]
    assert Program(Api(job("one")))("release", "one").stdout == "one is not held.\n"


def test_a_run_that_a_hold_stops_is_named_and_a_job_that_is_stopped_is_not_held() -> None:
    api = Api(job("one", "Running"), job("two", "Stopping", spec={"shutdown": "Stop"}))
    told = Program(api)("hold", "one", "two").stdout
    assert "one is held: its run is stopped, its finally tasks run." in told
    assert "two is being stopped: it does not run again." in told


def test_a_wrong_name_stops_nothing() -> None:
    api = Api(job("one"))
    assert Program(api)("stop", "one", "oen").exit_code == 5
    assert api.writes == []


def test_delete_is_by_uid() -> None:
    api = Api(job("one", "Running"), job("two", "Succeeded"))
    result = Program(api)("delete", "one", "two", "--yes")
    assert result.stdout == "one deleted, once its run has stopped\ntwo deleted\n"
    assert api.writes == [("delete", "bench/one", "uid-one"), ("delete", "bench/two", "uid-two")]
