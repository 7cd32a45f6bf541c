"""Annotations of an AppWrapper: what is refused at creation, and that nothing later can do harm."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fournos.api.kinds import APPWRAPPER
from fournos.engine.kube.resource import JOB, Key
from fournos.engine.runtime.webhook.review import Review
from fournos.systems.appwrappers.names import ANNOTATION
from fournos.systems.appwrappers.settings import READERS, Tolerance, tolerance, unusable
from tests.unit.systems.appwrappers.actors import (
    NS,
    Controllers,
    job_template,
    phase,
    pod_template,
    submit,
    wrapper,
)
from tests.unit.systems.appwrappers.test_admission import request_for, reviewed
from tests.unit.systems.appwrappers.test_lifecycle import scenario
from tests.world.harness import run
from tests.world.kueue import holding
from tests.world.server import Server

# --- annotations ---------------------------------------------------------------------------------------

LONG = "9" * 5000
DURATIONS = [name for name in READERS if name.endswith("Duration")]
DEFAULTS = tolerance({})


def read(**annotations: str) -> Tolerance:
    return tolerance({ANNOTATION + name: text for name, text in annotations.items()})


def created(**annotations: str) -> Review:
    return reviewed(request_for(wrapper(pod_template("p"), **annotations)))


USABLE: list[tuple[str, str, str, Any]] = [
    ("warmupGracePeriodDuration", "1h30m", "warmup", timedelta(hours=1, minutes=30)),
    ("failureGracePeriodDuration", "0s", "failure", timedelta(0)),
    ("failureGracePeriodDuration", "-5m", "failure", timedelta(0)),
    ("retryPausePeriodDuration", "9999h", "retry_pause", timedelta(hours=24)),
    ("retryLimit", "0", "retry_limit", 0),
    ("retryLimit", "2147483647", "retry_limit", 2147483647),
    ("terminalExitCodes", "3, 137", "terminal_codes", frozenset({3, 137})),
    ("retryableExitCodes", "-1", "retryable_codes", frozenset({-1})),
]


@pytest.mark.parametrize(("name", "text", "field", "expected"), USABLE)
def test_what_can_be_used(name: str, text: str, field: str, expected: Any) -> None:
    assert getattr(read(**{name: text}), field) == expected
    assert created(**{name: text}) == Review()


UNUSABLE = [
    *((name, text) for name in DURATIONS for text in ("7d", "90", "", f"{LONG}h", "1ns" * 100)),
    *(("retryLimit", text) for text in ("few", "", "1_000", "²", "٣", "2147483648", LONG, f"-{LONG}")),
    *(
        (name, text)
        for name in ("terminalExitCodes", "retryableExitCodes")
        for text in ("", "1;2", "1,,2", LONG, f"3,{LONG}", "1," * 100_000, ",".join(["1"] * 257), "²")
    ),
]


@pytest.mark.parametrize(("name", "text"), UNUSABLE, ids=lambda text: text[:20])
def test_what_cannot_be_used_is_refused_and_counts_as_absent(name: str, text: str) -> None:
    (problem,) = created(**{name: text}).problems
    assert problem.field == f"metadata.annotations[{ANNOTATION}{name}]"
    assert f"write {READERS[name].valid_values}" in problem.message and len(problem.message) < 250
    assert read(**{name: text}) == DEFAULTS
    # Whoever changes an AppWrapper so is warned; one that has it already may change in all other ways.
    before, after = wrapper(pod_template("p")), wrapper(pod_template("p"), **{name: text})
    (line,) = reviewed(request_for(after, before)).warnings
    assert name in line and "until then the default counts" in line
    assert reviewed(request_for(after, after)) == Review()


@pytest.mark.parametrize(
    ("text", "refused"), [("3600", 0), ("0", 1), ("2147483648", 1), ("9" * 63, 1), ("²", 1), ("", 1)]
)
def test_the_longest_execution_is_a_number_of_seconds(text: str, refused: int) -> None:
    made = wrapper(pod_template("p"))
    made["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = text
    found = reviewed(request_for(made)).problems
    assert len(found) == refused and all("write seconds" in one.message for one in found)


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(list(READERS)), st.text(max_size=30), max_size=3))
def test_nothing_raises(annotations: dict[str, str]) -> None:
    assert isinstance(read(**annotations), Tolerance)
    list(unusable({ANNOTATION + name: text for name, text in annotations.items()}))


def poison(server: Server) -> None:
    """After creation: a webhook does not stand in the way of annotations that change."""
    marks = {ANNOTATION + name: LONG for name in READERS}
    server.patch(APPWRAPPER, Key(NS, "aw"), {"metadata": {"annotations": marks}})


async def test_an_annotation_that_cannot_be_used_stops_neither_a_life_nor_a_deletion() -> None:
    def deleted(server: Server) -> None:
        assert phase(server) == "Running"
        server.delete(APPWRAPPER, Key(NS, "aw"))

    done = await run(
        scenario(
            lambda server: submit(server, job_template("j")),
            world=lambda: Controllers(endless={"j-0"}),
            script=[poison, deleted],
            end=lambda server: None,
        )
    )
    assert done.server.find(APPWRAPPER, Key(NS, "aw")) is None
    assert done.server.list(JOB) == [] and holding(done.server, "aw") == []


@pytest.mark.parametrize(
    "change",
    [
        {"template": {**pod_template("p"), "spec": None}},
        {"template": pod_template("p"), "podSets": [{"path": f"template.spec.containers[{LONG}]"}]},
        {"template": pod_template("p"), "podSets": [{"path": "template" + ".spec" * 5000}]},
        {"template": job_template("j", parallelism=2**31)},
        {"template": {**pod_template("p"), "kind": "Nothing"}, "podSets": [{"path": "template.a[0]"}]},
    ],
    ids=["no spec", "index", "path", "count", "no pods"],
)
@pytest.mark.parametrize("queue", [None, "user-queue"])
async def test_a_spec_that_nothing_can_be_made_of_is_refused_ends_and_goes(
    change: Any, queue: str | None
) -> None:
    """Whether a webhook stands before it or not."""
    made = {**wrapper(queue=queue), "spec": {"suspend": queue is not None, "components": [change]}}
    problems = reviewed(request_for(made)).problems
    assert problems and len(str(problems[0])) < 1500

    def setup(server: Server) -> None:
        server.create(APPWRAPPER, made)

    def deleted(server: Server) -> None:
        assert phase(server) == "Failed"
        server.delete(APPWRAPPER, Key(NS, "aw"))

    done = await run(scenario(setup, script=[deleted], end=lambda server: None))
    assert done.server.find(APPWRAPPER, Key(NS, "aw")) is None
