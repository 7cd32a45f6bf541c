"""What the parts for scale and faults derive from what they saw."""

from __future__ import annotations

import inspect
from collections import Counter
from pathlib import Path

import pytest

from bench.__main__ import PARTS, _arguments
from bench.ceiling import Cost, ratios
from bench.failover import Failover, Handover, gap
from bench.operator import Usage
from bench.outage import Outage, calls_between, settled
from bench.published_operators import PUBLISHED
from bench.soak import Sample, Soak, growth, p99
from bench.upstream import OURS, THEIRS, Beside, Turn
from devcluster import DevclusterError


@pytest.mark.parametrize("name", PARTS)
def test_the_options_of_a_part_are_what_its_measurement_takes(name: str, tmp_path: Path) -> None:
    own = PARTS[name].arguments(_arguments().parse_args([name]))
    inspect.signature(PARTS[name].measure).bind("bench", directory=tmp_path, keep=False, **own)


def cost(system: str, rate: float, cpu: float, others: float = 0.0) -> Cost:
    return Cost(system, 10, rate, cpu / 10, {"kube-apiserver": cpu, "benchmark": 1000.0}, others)


def test_ratios_are_medians_over_kueue_s_without_the_benchmark_s_cpu() -> None:
    turns = [cost("kueue", 40, 20), cost("kueue", 60, 20), cost("kueue", 50, 20), cost("fournosjobs", 20, 80)]
    assert ratios(turns) == {"fournosjobs.rate": 0.4, "fournosjobs.requests": 4.0, "fournosjobs.cpu": 4.0}


def test_a_machine_that_others_used_meanwhile_does_not_change_the_ratio_of_rates() -> None:
    turns = [cost("kueue", 50, 20), cost("fournosjobs", 10, 80, others=0.5)]
    assert ratios(turns)["fournosjobs.rate"] == 0.4


def test_a_gap_is_between_the_writes_around_the_new_leader() -> None:
    assert gap([1.0, 2.0, 18.5, 19.0], led=18.0) == 16.5


@pytest.mark.parametrize("writes", [[], [1.0], [19.0]])
def test_a_gap_needs_a_write_on_both_sides(writes: list[float]) -> None:
    with pytest.raises(ValueError, match="before and after"):
        gap(writes, led=18.0)


def test_the_longest_gap_counts_in_lease_durations() -> None:
    handovers = [Handover("kill", 14.0, 15.0), Handover("kill", 16.0, 18.0), Handover("graceful", 0.1, 0.3)]
    found = Failover(handovers, 100, ["a job has a second PipelineRun"], [], [])
    assert found.ratios() == {
        "kill.gap": 1.2,
        "graceful.gap": 0.02,
        "doubles": 1.0,
        "failed": 0.0,
        "late": 0.0,
    }


def usage(calls: int) -> Usage:
    return Usage(0.0, 0, 0, Counter({("local", "get", "jobs"): calls}), 0)


def test_requests_of_a_new_process_count_from_its_start() -> None:
    assert calls_between({1: usage(10), 2: usage(5)}, {1: usage(14), 3: usage(7)}) == 11


def test_a_load_is_steady_after_three_usual_waits_in_a_row() -> None:
    waits = [(1.0, 0.1), (2.0, 0.1), (3.0, 0.1), (11.0, 0.2), (12.0, 9.0), (13.0, 0.2), (14.0, 1.0)]
    assert settled(waits, since=10.0, usual=0.1) is None
    assert settled([*waits, (15.0, 0.3)], since=10.0, usual=0.1) == 15.0


def test_this_operator_counts_beside_a_published_one() -> None:
    turns = [
        Turn("fournos", "1", cost(OURS, 4, 100), 2.0),
        Turn("fournos", "2", cost(THEIRS, 1, 200, others=0.5), 20.0),
    ]
    assert Beside(turns).ratios() == {
        "fournos.rate": 4.0,
        "fournos.p50": 0.1,
        "fournos.requests": 0.5,
        "fournos.cpu": 0.5,
    }


@pytest.mark.parametrize("option", PUBLISHED)
def test_a_directory_without_the_published_operator_is_refused(option: str, tmp_path: Path) -> None:
    with pytest.raises(DevclusterError, match="no checkout of the published operator"):
        PUBLISHED[option].checked(tmp_path)


async def test_beside_nothing_there_is_nothing_to_measure(tmp_path: Path) -> None:
    part = PARTS["upstream"]
    with pytest.raises(DevclusterError, match="nothing to measure"):
        await part.measure(
            "bench", directory=tmp_path, keep=False, **part.arguments(_arguments().parse_args(["upstream"]))
        )


def test_growth_is_the_last_third_over_the_first() -> None:
    assert growth([100, 100, 500, 500, 110, 110]) == 1.1
    with pytest.raises(ValueError, match="do not show"):
        growth([1, 2])


def test_p99_of_few_values() -> None:
    assert p99([]) == 0.0
    assert p99([3.0]) == 3.0
    assert p99([float(value) for value in range(101)]) == 99.0


def sample(at: float, pid: int, rss: int) -> Sample:
    return Sample(at, pid, rss, 40, 30.0, 5.0, 20, 0.2, 0.5, 10_000_000, {"history": 1000 + rss})


SOAK = Soak(
    minutes=1,
    live=30,
    slots=10,
    rate=4,
    samples=[sample(0, 1, 90), sample(5, 2, 100), sample(10, 2, 150), sample(15, 2, 105)],
    handovers=[Handover("kill", 15.0, 15.4)],
    waits=[0.2, 0.3],
    ends=240,
    doubles=[],
    failed=["stream-7 is <Failed>"],
    late=[],
    orphans=[],
    outages=[Outage("killed", 60, 200, 50.0, 300, 1.0, 5.0, 0)],
)


def test_a_soak_compares_the_longest_leader_with_itself_and_the_history_over_the_whole_time() -> None:
    found = SOAK.ratios()
    assert (found["rss"], found["history.rss"]) == (1.05, 1105 / 1090)
    assert (found["failed"], found["doubles"]) == (1.0, 0.0)
    assert (found["killed.meanwhile"], found["killed.requests"]) == (0.25, 1.5)
