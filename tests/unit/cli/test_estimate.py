"""fournos estimate, and the estimate in fournos explain."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from fournos.history.api.wire import body
from fournos.history.estimates.accuracy import Accuracy
from fournos.history.estimates.models import Estimates, JobEstimate
from fournos.history.estimates.simulate import Estimate, Range, WouldStart
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NOW, NS, job, workload
from tests.unit.cli.test_explain import pending, world

PATH = f"/apis/history.fournos.dev/v1/namespaces/{NS}/estimates"
FOUND = Estimate(
    Range(NOW + timedelta(minutes=5), NOW + timedelta(minutes=9)),
    Range(NOW + timedelta(hours=1), NOW + timedelta(hours=2)),
    "12 runs of the same fingerprint",
)
ONE = JobEstimate("FournosJob", "one", NS, "uid-one", 2, FOUND)
SUBMIT = ("--set", "cluster=cluster-1", "--set", "executionEngine.forge.project=p", "--set", "owner=me")


def api(*jobs: JobEstimate, **answers: bytes) -> Api:
    found = Api(job("one", "Pending"))
    score = Accuracy("start", 20, 60.0, 0.1, 0.5, 0.9)
    found.stored = {
        PATH: body(Estimates(jobs, (score,)), Estimates),
        **{f"{PATH}/{one.name}": body(Estimates((one,)), Estimates) for one in jobs},
        **answers,
    }
    return found


def test_the_waiting_jobs_and_how_good_estimates_were() -> None:
    unknown = JobEstimate(
        "FournosJob", "two", NS, "u2", 3, Estimate(None, None, reason="its queue is stopped")
    )
    running = JobEstimate("FournosJob", "run", NS, "u3", 0, Estimate(None, FOUND.end, "5 runs"))
    result = Program(api(ONE, unknown, running))("estimate")
    assert result.exit_code == 0, result.stderr
    first, second, third = result.stdout.splitlines()[1:4]
    assert " ".join(first.split()) == (
        "2 one in 5m (90%: 9m) in 1h (90%: 2h) 12 runs of the same fingerprint"
    )
    assert "its queue is stopped" in second
    assert "started" in third
    assert "half of 20 estimates were off by less than 60 s" in result.stderr


def test_one_job_as_json() -> None:
    result = Program(api(ONE))("estimate", "one", "-o", "json")
    assert json.loads(result.stdout)["jobs"][0]["estimate"]["basis"] == "12 runs of the same fingerprint"


def test_no_job_waits_and_no_history() -> None:
    assert "No job waits" in Program(api())("estimate").stderr
    result = Program(Api(job("one")))("estimate")
    assert result.exit_code != 0
    assert "the cluster has no history" in result.stderr


def test_would_it_start_now() -> None:
    found = Api(job("one"))
    found.stored = {PATH: body(WouldStart(True, "cluster-1", FOUND), WouldStart)}
    result = Program(found)("estimate", *SUBMIT)
    assert result.stdout.startswith("It would start now on cluster-1. Ends in 1h")
    assert found.raw_requests == [("POST", PATH)]
    assert json.loads(Program(found)("estimate", *SUBMIT, "-o", "json").stdout)["now"] is True
    assert Program(found)("estimate", "one", *SUBMIT).exit_code != 0


def waiting() -> Api:
    return world(pending(), workload("one"))


def test_explain_has_the_estimate() -> None:
    found = waiting()
    found.stored = {f"{PATH}/uid-one": body(Estimates((ONE,)), Estimates)}
    result = Program(found)("explain", "one")
    assert "Estimate\n  Starts in 5m (90%: 9m); ends in 1h" in result.stdout
    shown = json.loads(Program(found)("explain", "one", "-o", "json").stdout)
    assert shown["estimate"]["basis"] == "12 runs of the same fingerprint"


@pytest.mark.parametrize("answer", [b"{", b"{}"])
def test_explain_does_without_a_history_that_has_none(answer: bytes) -> None:
    plain = Program(waiting())("explain", "one")
    found = waiting()
    found.stored = {f"{PATH}/uid-one": answer}
    strange = Program(found)("explain", "one")
    assert (plain.exit_code, plain.stdout) == (strange.exit_code, strange.stdout) == (0, plain.stdout)
    assert "Estimate" not in plain.stdout


def test_explain_does_not_wait_for_a_history_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = waiting()

    async def hang(*_: Any, **__: Any) -> bytes:
        await asyncio.Event().wait()
        return b""

    monkeypatch.setattr(found, "raw", hang)
    monkeypatch.setattr("fournos.cli.stored._ESTIMATE", 0.01)
    result = Program(found)("explain", "one")
    assert result.exit_code == 0
    assert "Estimate" not in result.stdout


def test_a_running_job_is_explained_without_an_estimate() -> None:
    found = Api(job("one", "Running"))
    Program(found)("explain", "one")
    assert found.raw_requests == []
