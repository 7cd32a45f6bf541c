"""The rules in Python.  The same table meets a real API server in tests/integration/api."""

from __future__ import annotations

import pytest

from fournos.systems.jobs.rules import RULES, check, check_manifest
from tests.rule_cases import (
    ALWAYS,
    CHANGES,
    CREATIONS,
    FREE,
    SHARED,
    Case,
    Change,
    job,
    merged,
    shared,
)

BY_ID = {rule.id: rule for rule in RULES}


def ids(violations: list) -> list[str]:  # type: ignore[type-arg]
    return [violation.rule for violation in violations]


def test_every_rule_has_an_id_of_its_own_and_a_case() -> None:
    assert len(BY_ID) == len(RULES)
    assert {case.rule for case in CREATIONS} | {change.rule for change in CHANGES} == set(BY_ID)


@pytest.mark.parametrize("case", CREATIONS, ids=lambda case: case.rule)
def test_creation(case: Case) -> None:
    assert ids(check_manifest(case.bad)) == [case.rule, *case.also]
    assert check_manifest(case.good) == []
    assert case.says in BY_ID[case.rule].message


@pytest.mark.parametrize("phase", ALWAYS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.rule}-{list(change.patch)}")
def test_change(change: Change, phase: str | None) -> None:
    old = job(change.spec, phase=phase)
    new = job(merged(change.spec, change.patch), phase=phase)
    assert (change.rule in ids(check(new, old))) == (phase in change.phases)
    assert change.says in BY_ID[change.rule].message


@pytest.mark.parametrize("phase", ALWAYS)
@pytest.mark.parametrize("patch", FREE, ids=str)
def test_free_in_every_phase(patch: dict, phase: str | None) -> None:  # type: ignore[type-arg]
    assert check(job(merged(SHARED, patch), phase=phase), job(SHARED, phase=phase)) == []


def test_the_resolver_may_fill_in_hardware_and_secrets() -> None:
    old = job(SHARED, phase="Resolving")
    new = job(
        shared(hardware={"gpuType": "a100", "gpuCount": 2}, secretRefs=["placeholder"]), phase="Resolving"
    )
    assert check(new, old) == []


@pytest.mark.parametrize("case", CREATIONS, ids=lambda case: case.rule)
def test_what_was_stored_wrong_may_stay_wrong(case: Case) -> None:
    if "spec" in case.bad:
        stopped = {**case.bad, "spec": {**case.bad["spec"], "shutdown": "Stop"}}
        assert check(stopped, case.bad) == []
    labelled = {**case.bad, "metadata": {**case.bad["metadata"], "labels": {"a": "b"}}}
    assert check(labelled, case.bad) == []
    assert ids(check(case.bad)) == [case.rule, *case.also], "but it is still found"


@pytest.mark.parametrize("case", CREATIONS, ids=lambda case: case.rule)
def test_what_was_right_may_not_become_wrong(case: Case) -> None:
    if BY_ID[case.rule].when == "create":
        return
    before = job(SHARED) if case.bad.get("spec") is None else case.good
    assert case.rule in ids(check(case.bad, before))


def test_a_job_that_waits_for_its_next_attempt_stays_as_it_was_admitted() -> None:
    old = job(shared(priority="nightly"), phase="Pending")
    new = job(shared(priority="manual"), phase="Pending")
    assert check(new, old) == []
    old["status"]["attempt"] = 1
    assert ids(check(new, old)) == ["priority-frozen"]


def test_the_sample_of_the_readme_passes() -> None:
    sample = {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosJob",
        "metadata": {"generateName": "sample-run-benchmark-"},
        "spec": {
            "owner": "perf-team",
            "displayName": "sample-run-benchmark",
            "cluster": "cluster-1",
            "hardware": {"gpuType": "a100", "gpuCount": 2},
            "pipeline": "forge-full",
            "executionEngine": {
                "forge": {"project": "llmd", "args": ["cks"], "configOverrides": {"batch_size": 64}}
            },
            "env": {"OCPCI_SUITE": "regression", "OCPCI_VARIANT": "nightly"},
        },
    }
    assert check_manifest(sample) == []
    sample["metadata"] = {"generateName": "g" * 51}
    assert ids(check_manifest(sample)) == ["name-length"]


def test_null_is_absent() -> None:
    spec = {**SHARED, "cluster": None, "hardware": None, "ttl": None, "secretRefs": None, "env": None}
    assert check_manifest(job({**spec, "timeouts": {"pipeline": None}, "pipeline": None})) == []
    assert ids(check_manifest(job({**SHARED, "exclusive": None}))) == ["exclusive-cluster"]
