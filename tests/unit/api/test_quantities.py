"""Parsing a quantity from an object takes little time, whatever the text is."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fournos.engine.api.values import parse_count, parse_duration, parse_quantity, parse_ttl, quantity_of
from fournos.engine.queueing.ensure import equivalent, max_execution_seconds
from fournos.engine.queueing.podsets import RequestsError, parse_requests
from fournos.engine.queueing.workload import PodSet
from fournos.systems.clusters.gpus import discover
from fournos.systems.miniclusters.health import exit_code

LONG = "9" * 900_000


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2", 2),
        ("500m", Decimal("0.5")),
        ("16Gi", 16 * 2**30),
        ("1e3", 1000),
        (7, 7),
        ("1e1000", 2**63 - 1),
        ("-1e1000", 1 - 2**63),
        ("1e999999999", 2**63 - 1),
        ("1" + "0" * 20, 2**63 - 1),
        ("9E", 9 * 10**18),
        ("10E", 2**63 - 1),
        ("1e-1000", Decimal("1e-9")),
        ("1.5n", Decimal("2e-9")),
        ("0e1000", 0),
    ],
)
def test_quantities(text: str | int, number: Any) -> None:
    assert parse_quantity(text) == number


@given(
    st.from_regex(
        r"[+-]?[0-9]{0,9}\.?[0-9]{0,9}([eE][+-]?[0-9]{1,12}|[KMGTPE]i|[numkMGTPE])?", fullmatch=True
    )
)
def test_a_quantity_is_bounded_and_can_be_computed_with(text: str) -> None:
    amount = quantity_of(text)
    assert abs(amount) <= 2**63 - 1 and len(f"{amount:f}") < 40
    assert int(amount) == float(int(amount)) or abs(amount) > 2**53
    assert quantity_of(f"{amount:f}") == amount


@pytest.mark.parametrize("value", [None, "", "x", [], {"a": 1}, True, LONG, "1e9999999999", float("nan")])
def test_what_is_no_quantity_counts_nothing_and_raises_nothing(value: object) -> None:
    assert quantity_of(value) == 0


@pytest.mark.parametrize(
    "read", [parse_quantity, parse_duration, parse_ttl, lambda text: parse_duration(f"{text}h")]
)
@pytest.mark.parametrize("text", [LONG, "0" * 900_000, f"{LONG}h", f".{LONG}", "-" + LONG, "²", ""])
def test_what_is_too_long_or_no_number_is_refused_at_once(read: Callable[[str], Any], text: str) -> None:
    started = time.process_time()
    with pytest.raises(ValueError) as refused:
        read(text)
    assert time.process_time() - started < 0.1
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("255", 255),
        ("007", 7),
        ("2147483647", 2**31 - 1),
        ("2147483648", None),
        ("²", None),
        ("٣", None),
        ("-1", None),
        ("1_0", None),
        (" 1", None),
        ("", None),
        (None, None),
        (7, None),
        ("9" * 5000, None),
        (LONG, None),
    ],
)
def test_counts(text: object, number: int | None) -> None:
    assert parse_count(text) == number


@pytest.mark.parametrize(
    ("message", "code"),
    [("0", 0), ("143", 143), ("255", 255), ("256", None), ("²", None), ("9" * 12, None), ("9" * 5000, None)],
)
def test_the_exit_code_of_a_minicluster_is_one(message: str, code: int | None) -> None:
    ended = {"name": "m", "state": {"terminated": {"message": message}}}
    assert exit_code({"status": {"containerStatuses": [ended]}}, "m") == code


def test_one_node_cannot_hold_up_the_others() -> None:
    def node(quantity: str) -> dict[str, Any]:
        conditions = [{"type": "Ready", "status": "True"}]
        status = {"conditions": conditions, "allocatable": {"nvidia.com/gpu": quantity}}
        return {"metadata": {"name": "n"}, "status": status}

    started = time.process_time()
    (found,) = discover([node(LONG), node("8"), node("-3"), node("²")])
    assert (found.count, found.node_count) == (8, 1)
    (found,) = discover([node("1e900"), node("9" * 60)])
    assert (found.count, found.node_count) == (1_000_000, 2)
    assert time.process_time() - started < 0.5


def test_labels_annotations_and_templates_hold_any_text() -> None:
    label = "kueue.x-k8s.io/max-exec-time-seconds"
    assert max_execution_seconds({"metadata": {"labels": {label: "60"}}}) == 60
    assert max_execution_seconds({"metadata": {"labels": {label: "9" * 63}}}) is None
    for text, limit in ((LONG, 4096), (LONG[:4000], 32)):
        with pytest.raises(RequestsError, match=f"at most {limit} characters"):
            parse_requests(f"cpu={text}")

    def pod_set(cpu: str) -> Any:
        containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
        return {"name": "main", "template": {"spec": {"containers": containers}}}

    odd = "0" * 100 + "1"  # which Kubernetes takes
    own = [PodSet("main", 1, pod_set(odd)["template"])]
    for stored, same in ((odd, True), ("1", False)):
        workload = {"spec": {"podSets": [{**pod_set(stored), "count": 1}]}}
        assert equivalent(own, None, workload, suspended=True) is same
