"""What the load of short jobs keeps of what it sees."""

from __future__ import annotations

from typing import Any

import pytest

from bench.executors import succeeded_run
from bench.stream import LATE, Stream
from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.resource import Obj
from fournos.systems.jobs import names


@pytest.fixture
def stream() -> Stream:
    return Stream(
        Client(Credentials("http://127.0.0.1:1", FixedIdentity(Proof())), name="unused"),
        live=2,
        ends_per_second=1.0,
    )


def job(name: str, phase: str) -> Obj:
    return {"metadata": {"name": name}, "status": {"phase": phase}}


def run(name: str, uid: str, *, of: str = "uid-of-job") -> dict[str, Any]:
    owner = {"kind": "FournosJob", "name": name, "uid": of, "controller": True}
    metadata = {
        "name": name,
        "uid": uid,
        "labels": {names.JOB_NAME_LABEL: name},
        "ownerReferences": [owner],
    }
    return {"metadata": metadata, "status": succeeded_run()}


def lease(holder: str) -> Obj:
    return {"metadata": {"name": names.LEASE}, "spec": {"holderIdentity": holder}}


def test_a_life_of_a_job_is_no_fault_and_each_phase_a_write(stream: Stream) -> None:
    for phase in ("Resolving", "Pending", "Pending", "Admitted", "Running", "Succeeded"):
        stream.see_phase(job("a", phase))
    assert len(stream.record.writes) == 5
    assert (stream.record.doubles, stream.record.failed, stream.record.late) == ([], [], [])


def test_a_second_object_of_a_job_is_a_double_and_an_event_of_the_first_is_not(stream: Stream) -> None:
    see = stream.handlers()[next(each for each in stream.handlers() if each.kind == "PipelineRun")]
    see(run("a", "0", of="a job of that name before"))
    see(run("a", "1"))
    see(run("a", "1"))
    assert (len(stream.record.writes), stream.record.doubles) == (2, [])
    see(run("a", "2"))
    assert stream.record.doubles == ["a has a second PipelineRun"]


def test_a_phase_after_the_end_is_a_double(stream: Stream) -> None:
    stream.see_phase(job("a", "Succeeded"))
    stream.see_phase(job("a", "Running"))
    assert stream.record.doubles == ["a is Running after Succeeded"]


def test_a_job_that_does_not_succeed_or_is_told_late_is_kept(stream: Stream) -> None:
    stream.see_phase(job("a", "Running"))
    stream.see_phase(job("b", "Running"))
    stream.note("b", "run ended")
    stream.times["b"]["run ended"] -= LATE + 1
    stream.see_phase(job("a", "Failed"))
    stream.see_phase(job("b", "Succeeded"))
    assert (stream.record.failed, stream.record.late) == (["a is Failed"], ["b"])


def test_an_end_in_the_drain_is_not_late(stream: Stream) -> None:
    stream.see_phase(job("a", "Running"))
    stream.note("a", "run ended")
    stream.times["a"]["run ended"] -= LATE + 1
    stream.draining = True
    stream.see_phase(job("a", "Succeeded"))
    assert (stream.record.failed, stream.record.late) == ([], [])


def test_a_leader_counts_once_until_another_leads(stream: Stream) -> None:
    see = stream.handlers()[next(each for each in stream.handlers() if each.kind == "Lease")]
    for holder in ("one", "one", "", "two"):
        see(lease(holder))
    see({**lease("three"), "metadata": {"name": "of another"}})
    assert [holder for _, holder in stream.record.leaders] == ["one", "", "two"]


def test_queued_are_the_jobs_that_wait_in_their_order(stream: Stream) -> None:
    for name, phase in (("a", "Pending"), ("b", "Pending"), ("c", "Running"), ("a", "Admitted")):
        stream.see_phase(job(name, phase))
    assert stream.queued() == ["b"]
