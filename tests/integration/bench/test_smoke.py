"""The benchmark runs and its counts are correct.  Times have no limit, because machines differ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.lifecycle import HOPS

JOBS = 5


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    file: Path = tmp_path_factory.mktemp("bench") / "numbers.json"
    words = ["lifecycle", "--jobs", str(JOBS), "--cluster", "fournos-test-bench", "--json", str(file)]
    assert main(words) == 0
    (found,) = json.loads(file.read_text())["lifecycle"]
    assert isinstance(found, dict)
    return found


def test_every_hop_of_every_job_is_timed(numbers: dict[str, object]) -> None:
    hops = numbers["hops"]
    assert isinstance(hops, dict)
    assert set(hops) == {f"{words} ({who})" for _, _, who, words in HOPS}
    assert numbers["jobs"] == JOBS


def test_requests_of_all_parties_are_what_the_server_counted(numbers: dict[str, object]) -> None:
    requests = numbers["requests"]
    assert isinstance(requests, dict)
    parts = ("operator", "events", "kueue and others")
    assert requests["all"] == pytest.approx(sum(requests[part] for part in parts))
    # A job cannot be had for less: six writes of it, its five children and their ends.
    assert 10 < requests["operator"] < 20
    # Two a job; a slow machine adds those of a step that is tried again.
    assert 2 <= requests["events"] <= 4
    # No upper limit: Kubernetes' garbage collector reads owners until it knows a new resource type.
    assert requests["kueue and others"] > 2


def test_a_job_costs_passes_and_processor(numbers: dict[str, object]) -> None:
    for name in ("cpu_ms", "passes", "rss", "rate"):
        value = numbers[name]
        assert isinstance(value, float | int), name
        assert value > 0, name


def test_the_client_takes_turns_with_plain_requests(tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    words = ["client", "--jobs", "40", "--turns", "1", "--cluster", "fournos-test-bench"]
    assert main([*words, "--json", str(file)]) == 0
    found = json.loads(file.read_text())["client"]
    assert (found["jobs"], len(found["plain"]), len(found["matrix"]), len(found["waits"])) == (40, 1, 1, 20)
    assert min(found["plain"] + found["matrix"]) > 0
    assert max(found["waits"]) < 30


def test_changes_reach_all_open_tabs_of_the_page(tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    sizes = ["--jobs", "1000", "--reads", "2", "--tabs", "20", "--seconds", "1"]
    assert main(["web", *sizes, "--cluster", "fournos-test-bench", "--json", str(file)]) == 0
    found = json.loads(file.read_text())["web"]
    assert {page["status"] for page in found["pages"]} == {200}
    assert all(page["whole"] > page["bytes"] > 0 for page in found["pages"])
    assert len(found["live"]["delays"]) == 20 * found["live"]["changes"] > 0
    # The changed pieces are less than the objects.
    each = {name: found[name]["bytes"] / found[name]["tabs"] for name in ("live", "snapshots")}
    assert 0 < each["live"] < each["snapshots"]
