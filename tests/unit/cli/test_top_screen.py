"""fournos top: what each key changes, and the lines of the screen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fournos.cli.top import parse
from fournos.cli.top_screen import HELP, ORDERS, Screen, body, chosen, furthest, lines, press
from fournos.insight.overview import ClusterLine, GpuCounts, JobLine, Overview
from tests.unit.cli.objects import NOW, ago


def line(name: str, **fields: object) -> JobLine:
    base = JobLine("bench", name, "Running", "perf", "cluster-1", "2 x a100", 2, ago(minutes=5), 0, "")
    return replace(base, **fields)  # type: ignore[arg-type]


FOUND = Overview(
    (
        ClusterLine("cluster-1", "Valid", "", (GpuCounts("a100", 3, 8),), 2),
        ClusterLine(
            "cluster-2", "Valid, draining", "ann", (GpuCounts("a100", 4, 4), GpuCounts("h200", 1, 0)), 1
        ),
        ClusterLine("cluster-3", "-", "", (), 0),
    ),
    (
        line("load", owner="zoe", gpus=1, hardware="1 x a100"),
        line("nightly", owner="ann", cluster="cluster-2", gpus=8, hardware="8 x h200"),
    ),
    (
        line(
            "first",
            phase="Pending",
            cluster="",
            place=1,
            reason="first waits for 2 x a100",
            since=ago(hours=1),
        ),
        line("second", phase="Pending", owner="", cluster="", hardware="-", gpus=0, place=2, reason=""),
    ),
)


def test_the_tables() -> None:
    assert [one.plain for one in body(FOUND, NOW, width=None)] == [
        "Clusters",
        "  NAME       STATE            LOCKED FOR  JOBS  GPUS USED",
        "  cluster-1  Valid            -           2     a100 3/8 ####......",
        "  cluster-2  Valid, draining  ann         1     a100 4/4 ##########  h200 1/0 ##########",
        "  cluster-3  -                -           0     -",
        "",
        "Running",
        "  JOB            PHASE    OWNER  CLUSTER    GPUS      FOR",
        "  bench/load     Running  zoe    cluster-1  1 x a100  5m",
        "  bench/nightly  Running  ann    cluster-2  8 x h200  5m",
        "",
        "Waiting",
        "  JOB           PHASE    OWNER  PLACE  GPUS      FOR  WHY",
        "  bench/first   Pending  perf   1      2 x a100  1h   first waits for 2 x a100",
        "  bench/second  Pending  -      2      -         5m   -",
    ]


def test_an_empty_cluster() -> None:
    assert [one.plain for one in body(Overview((), (), ()), NOW, width=80)] == [
        *("Clusters", "  none", "", "Running", "  none", "", "Waiting", "  none")
    ]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 10), (20, 3), (10, 1), (200, 60)])
def test_the_screen_is_filled_and_never_left(width: int, height: int) -> None:
    shown = lines(FOUND, Screen(), NOW, width=width, height=height)
    assert len(shown) == height
    assert all(one.cell_len <= width for one in shown)
    assert shown[0].plain.startswith("fournos t")


def test_the_title_and_the_foot() -> None:
    first, *_, last = lines(FOUND, Screen(), NOW, width=200, height=30)
    assert first.plain == (
        "fournos top  12:00:00Z  3 clusters  8 of 12 GPUs in use  2 running  2 waiting  by time"
    )
    assert last.plain == HELP
    last = lines(FOUND, Screen(filter="x"), NOW, width=200, height=5)[-1]
    assert last.plain.startswith("filter: x   ")
    last = lines(FOUND, Screen(), NOW, width=200, height=5)[-1]
    assert last.plain.startswith("12 more below   ")
    last = lines(FOUND, Screen(), NOW, width=200, height=5, watch_error="refused")[-1]
    assert last.plain == "Connection lost, trying again: refused"
    last = lines(FOUND, Screen(typing=True, filter="an"), NOW, width=200, height=5)[-1]
    assert last.plain.startswith("filter: an_")


def test_scrolling_ends_at_the_last_line() -> None:
    last = furthest(FOUND, Screen(), NOW, width=200, height=7)
    assert last == 10
    shown = lines(FOUND, Screen(offset=999), NOW, width=200, height=7)
    assert shown[-2].plain.startswith("  bench/second")
    assert shown == lines(FOUND, Screen(offset=last), NOW, width=200, height=7)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("time", ["load", "nightly"]),
        ("owner", ["nightly", "load"]),
        ("cluster", ["load", "nightly"]),
        ("GPUs", ["nightly", "load"]),
        ("name", ["load", "nightly"]),
    ],
)
def test_orders(order: str, expected: list[str]) -> None:
    assert [one.name for one in chosen(FOUND, Screen(order=order)).running] == expected
    backwards = chosen(FOUND, Screen(order=order, reverse=True)).running
    assert [one.name for one in backwards] == expected[::-1]


@pytest.mark.parametrize(
    ("text", "clusters", "jobs"),
    [
        ("", ["cluster-1", "cluster-2", "cluster-3"], ["load", "nightly", "first", "second"]),
        ("ANN", ["cluster-2"], ["nightly"]),
        ("cluster-1", ["cluster-1"], ["load"]),
        ("load", ["cluster-1"], ["load"]),
        ("pending", [], ["first", "second"]),
        ("nothing", [], []),
    ],
)
def test_filters(text: str, clusters: list[str], jobs: list[str]) -> None:
    found = chosen(FOUND, Screen(filter=text))
    assert [one.name for one in found.clusters] == clusters
    assert [one.name for one in (*found.running, *found.waiting)] == jobs


# --- keys --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("s", Screen(order="owner")),
        ("s" * len(ORDERS), Screen()),
        ("r", Screen(reverse=True)),
        ("rr", Screen()),
        ("\x1b[B\x1b[B\x1b[A", Screen(offset=1)),
        ("\x1b[A", Screen()),
        ("jjjk", Screen(offset=2)),
        ("\x1b[6~", Screen(offset=20)),
        ("\x1b[6~\x1b[5~", Screen()),
        ("jjs", Screen(order="owner")),
        ("/an", Screen(typing=True, filter="an")),
        ("/anx\x7f\r", Screen(filter="an")),
        ("/q s\r", Screen(filter="q s")),
        ("/an\x1b", Screen()),
        ("/an\r\x1b", Screen()),
        ("/\x1b[A\r", Screen()),
        ("x?\x1b[99~", Screen()),
        ("q", None),
        ("jjQ", None),
        ("\x03", None),
        ("/an\x03", None),
    ],
)
def test_keys(keys: str, expected: Screen | None) -> None:
    screen: Screen | None = Screen()
    for key in parse(keys):
        assert screen is not None
        screen = press(screen, key, page=20)
    assert screen == expected


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("a", ["a"]),
        ("ä", ["ä"]),
        ("\x1b", ["escape"]),
        ("\x1bx", ["escape", "x"]),
        ("\x1bOA\x1bOB", ["up", "down"]),
        ("\x1b[1;5Aq", ["q"]),
        ("\x1b[", []),
        ("\x00\x01", []),
        ("", []),
    ],
)
def test_what_a_terminal_sends(text: str, keys: list[str]) -> None:
    assert list(parse(text)) == keys
