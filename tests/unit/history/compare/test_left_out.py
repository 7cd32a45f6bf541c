"""Runs of the same spec that are not compared, and by which part of the fingerprint."""

from __future__ import annotations

from typing import Any

from fournos.history.compare.left_out import OtherRuns, left_out
from fournos.history.fingerprint import fingerprint

SPEC: dict[str, Any] = {"pipeline": "p", "hardware": {"gpuType": "a100", "gpuCount": 8}, "params": {"n": "1"}}


def other(runs: int = 3, resolved: Any = None, cluster: str = "small", **spec: Any) -> OtherRuns:
    changed = {**SPEC, **spec}
    return OtherRuns(runs, "night-9", "uid-9", fingerprint(changed, resolved, cluster), changed)


def lines(*others: OtherRuns) -> list[str]:
    return [str(one) for one in left_out(fingerprint(SPEC, None, "big"), SPEC, others)]


def test_the_part_that_differs_is_named() -> None:
    assert lines(other()) == [
        "3 runs of the same spec left out (night-9 and 2 before): cluster class small, not big"
    ]
    smaller = {"hardware": {"gpuType": "a100", "gpuCount": 4}}
    assert lines(other(1, smaller, "big")) == [
        "1 run of the same spec left out (night-9): gpu count 4, not 8"
    ]


def test_what_the_pipeline_declared_then_is_named_without_values() -> None:
    assert lines(other(1, {"fingerprint": ""}, "big")) == [
        "1 run of the same spec left out (night-9): params"
    ]


def test_another_spec_is_not_left_out() -> None:
    assert lines(other(params={"n": "2"}), other(hardware={"gpuType": "a100", "gpuCount": 4})) == []
    assert lines(other(cluster="big")) == [], "it is comparable"
