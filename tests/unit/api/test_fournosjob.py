"""Reading FournosJobs, and the schema's checks in Python."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from fournos.api.fournosjob import DEFINITION, FournosJob, FournosJobSpec, Phase, Shutdown
from fournos.engine.api.schema_readers import schema_violations
from tests.rule_cases import CREATIONS, ENGINE, SHARED, Case, job, shared


def test_reading() -> None:
    read = FournosJob.model_validate(
        {
            "spec": {
                "displayName": "a name",
                "hardware": {"gpuType": "a100", "gpuCount": 2},
                "executionEngine": ENGINE,
                "secretRefs": ["one"],
                "timeouts": {"finally": "1h0m0s"},
                "shutdown": "Stop",
                "fromTheFuture": 1,
            },
            "status": {
                "phase": "Running",
                "dashboardURL": "https://dashboard",
                "phaseTimes": {"running": "2026-01-31T12:00:00Z"},
                "conditions": [{"type": "Resolved", "status": "True"}],
                "attempts": [{"number": 1, "outcome": "Evicted"}],
            },
        }
    )
    assert read.spec.pipeline == "fournos-full"
    assert read.spec.exclusive
    assert read.spec.hardware is not None and read.spec.hardware.gpu_count == 2
    assert read.spec.secret_refs == ("one",)
    assert read.spec.timeouts is not None and read.spec.timeouts.finally_ == "1h0m0s"
    assert read.spec.shutdown is Shutdown.STOP
    assert read.status.phase is Phase.RUNNING and not read.status.phase.traits.terminal
    assert read.status.dashboard_url == "https://dashboard"
    assert read.status.phase_times is not None
    assert read.status.phase_times.running == datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_an_empty_object_reads_as_its_defaults() -> None:
    read = FournosJob.model_validate({})
    assert read.spec == FournosJobSpec()
    assert read.status.phase is None


@pytest.mark.parametrize("case", CREATIONS, ids=lambda case: case.rule)
def test_objects_that_break_a_rule_can_still_be_read(case: Case) -> None:
    FournosJob.model_validate(case.bad)


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        (shared(gpucount=1), "spec.gpucount", "unknown field"),
        (shared(display_name="x"), "spec.display_name", "did you mean displayName?"),
        (
            shared(hardware={"gpuType": "a", "gpu_count": 1}),
            "spec.hardware.gpu_count",
            "did you mean gpuCount?",
        ),
        (shared(hardware=[]), "spec.hardware", "write a map"),
        (
            shared(hardware={"gpuType": "a", "gpuCount": "2"}),
            "spec.hardware.gpuCount",
            "write a whole number",
        ),
        (
            shared(hardware={"gpuType": "a", "gpuCount": True}),
            "spec.hardware.gpuCount",
            "write a whole number",
        ),
        (shared(hardware={"gpuType": "a", "gpuCount": 0}), "spec.hardware.gpuCount", "write at least 1"),
        (shared(retry={"limit": 11}), "spec.retry.limit", "write at most 10"),
        (shared(exclusive="no"), "spec.exclusive", "write true or false"),
        (shared(exclusive=0), "spec.exclusive", "write true or false"),
        (shared(shutdown="stop"), "spec.shutdown", "write one of Stop, Terminate"),
        (shared(secretRefs=[1]), "spec.secretRefs[0]", "in quotes"),
        (shared(env={"A": 1}), "spec.env.A", "in quotes"),
        (shared(secretRefs=["s"] * 65), "spec.secretRefs", "write at most 64 items"),
        ("text", "spec", "write a map"),
    ],
)
def test_schema(spec: Any, field: str, message: str) -> None:
    [violation] = schema_violations(DEFINITION, {**job(), "spec": spec})
    assert violation.field == field
    assert message in violation.message
    assert str(violation) == f"{field}: {violation.message}"


def test_kind_and_version() -> None:
    found = schema_violations(DEFINITION, {"kind": "Job", "spec": SHARED})
    assert [str(violation) for violation in found] == [
        "apiVersion: write apiVersion: fournos.dev/v1",
        "kind: write kind: FournosJob",
    ]


def test_the_engine_status_is_free() -> None:
    for content in (None, 1, "text", [1, {"a": None}], {"deep": {"er": []}}):
        assert schema_violations(DEFINITION, job(shared(executionEngine={"forge": content}))) == []
