"""The benchmark runs and its counts are correct.  Times have no limit, because machines differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import devcluster
from bench.__main__ import main
from bench.lifecycle import HOPS

CLUSTER = "fournos-test-bench"
JOBS, TABS = 5, 20
PARTS: dict[str, dict[str, Any]] = {
    "lifecycle": {"jobs": JOBS},
    "failover": {"kills": 0, "graceful": 1},
    "soak": {"minutes": 0.1, "live": 20, "every": 0.5, "outages": 2, "window": 2},
    "web": {"jobs": 200, "reads": 2, "tabs": TABS, "seconds": 5},
}
"""In an order in which the jobs that one leaves do not change what the next counts and shows."""


def _ensured(name: str, *, recreate: bool, **shape: Any) -> devcluster.Cluster:
    return devcluster.ensure(name, **shape)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each part wrote.  All measure on one cluster: to start one takes longer than a part does."""
    found = {}
    devcluster.down(CLUSTER)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(devcluster, "up", _ensured)
        for part, sizes in PARTS.items():
            file: Path = tmp_path_factory.mktemp(part) / "numbers.json"
            words = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
            assert main([part, *words, "--cluster", CLUSTER, "--keep", "--json", str(file)]) == 0
            found[part] = json.loads(file.read_text())[part]
    devcluster.down(CLUSTER)
    return found


@pytest.fixture
def lifecycle(numbers: dict[str, Any]) -> dict[str, Any]:
    (found,) = numbers["lifecycle"]["rounds"]
    assert isinstance(found, dict)
    return found


def test_every_hop_of_every_job_is_timed(lifecycle: dict[str, Any]) -> None:
    assert set(lifecycle["hops"]) == {f"{words} ({who})" for _, _, who, words in HOPS}
    assert lifecycle["jobs"] == JOBS


def test_requests_of_all_parties_are_what_the_server_counted(lifecycle: dict[str, Any]) -> None:
    requests = lifecycle["requests"]
    parts = ("operator", "events", "kueue and others")
    assert requests["all"] == pytest.approx(sum(requests[part] for part in parts))
    # A job cannot be had for less: six writes of it, its five children and their ends.
    assert 10 < requests["operator"] < 20
    # Two a job; a slow machine adds those of a step that is tried again.
    assert 2 <= requests["events"] <= 4
    # No upper limit: Kubernetes' garbage collector reads owners until it knows a new resource type.
    assert requests["kueue and others"] > 2


def test_a_job_costs_passes_and_processor(lifecycle: dict[str, Any]) -> None:
    for name in ("cpu_ms", "passes", "rss_mb", "rate"):
        value = lifecycle[name]
        assert isinstance(value, float | int), name
        assert value > 0, name


def test_the_page_answers_open_tabs(numbers: dict[str, Any]) -> None:
    found = numbers["web"]
    assert {page["status"] for page in found["pages"]} == {200}
    assert all(page["whole"] > page["bytes"] > 0 for page in found["pages"])
    changing, idle = found["opened"]
    assert changing["asked"] >= TABS <= idle["asked"]
    # An unchanged page is not sent again.
    assert idle["unchanged"] == idle["asked"]
    assert idle["bytes"] < changing["bytes"]


# --- scale and faults -------------------------------------------------------------------------------------


def test_a_leader_that_ends_as_told_hands_over_at_once_and_nothing_happens_twice(
    numbers: dict[str, Any],
) -> None:
    found = numbers["failover"]
    (handover,) = found["handovers"]
    assert (handover["how"], found["ends"] > 0) == ("graceful", True)
    # Without the Lease given back it would be 15 s.
    assert 0 <= handover["gap"] < 10
    assert (found["doubles"], found["failed"]) == ([], [])


def test_a_soak_samples_what_must_stay_flat_and_writes_a_report(numbers: dict[str, Any]) -> None:
    found = numbers["soak"]
    assert len(found["samples"]) >= 3
    assert all(sample["files"] > 0 and sample["rss"] > 0 for sample in found["samples"])
    assert [each["how"] for each in found["outages"]] == ["stopped", "killed"]
    assert all(each["requests_before"] > 0 and each["steady"] > 0 for each in found["outages"])
    assert (found["doubles"], found["failed"], found["orphans"]) == ([], [], [])
