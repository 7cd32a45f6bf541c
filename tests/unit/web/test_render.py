"""Templates, style sheets and charts."""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fournos.web
from dev.vendor import FOLDERS
from fournos.api.phase import Phase
from fournos.history.results.models import MAX_VALUE
from fournos.web.charts import (
    WIDTH,
    Plot,
    PlotBand,
    PlotLine,
    PlotMark,
    PlotRun,
    horizon,
    sparkline,
    ticks,
    time_step,
    time_ticks,
)
from fournos.web.pages.all_pages import PAGES
from fournos.web.render import LONGEST_CELL, SHEET, Assets, Frame, Link, Renderer, words
from fournos.web.runs.timeline import Gantt, Lane, gantt
from fournos.web.site import Page


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("ann", "ann"),
        ("", "–"),
        ("ann-lee@example.org", "ann-<wbr>lee@<wbr>example.<wbr>org"),
        ("team/a--b", "team/<wbr>a--<wbr>b"),
        ("<b>-&", "&lt;b&gt;-<wbr>&amp;"),
        ("1.25 of 10,000 at 12:30", "1.25 of 10,000 at 12:30"),
        ("3.3-70b", "3.3-<wbr>70b"),
        ("x" * 25, "x" * 24 + "<wbr>x"),
        ("model=llama-7b", "model=<wbr>llama-<wbr>7b"),
    ],
)
def test_a_name_breaks_after_its_punctuation(value: str, shown: str) -> None:
    assert re.sub(r"</?span[^>]*>", "", words(value)) == shown


def test_a_name_is_cut_as_each_text_of_a_row() -> None:
    assert len(words("ab-" * LONGEST_CELL).striptags()) == LONGEST_CELL


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_marks_one_entry_of_the_navigation(page: Page) -> None:
    nav = [Link(each.title, each.path) for each in PAGES if each.in_nav]
    frame = Frame(page.title, nav, page.path, under=page.under)
    html = Renderer().whole(frame, "")
    assert len(re.findall(r'aria-current="(?:page|true)"', html)) == 1


# --- Static files: each class of the style sheets has one meaning, colours stand in one file ------


STATIC = Path(fournos.web.__file__).parent / "static"
SHEETS = {path.name: path.read_text() for path in STATIC.glob("*.css")}


def test_a_job_that_stops_does_not_look_like_one_that_has_ended() -> None:
    coloured = set(re.findall(r'\.phase\[data-phase="(\w+)"\]', SHEETS["page.css"]))
    assert {one.value.lower() for one in Phase} - coloured == {"stopped"}


def test_pages_load_all_sheets_as_one() -> None:
    assets = Assets()
    together = assets.content(SHEET).decode()
    assert together.index("--font:") < min(
        together.index(text) for name, text in SHEETS.items() if name != "tokens.css"
    )
    templates = "".join(path.read_text() for path in (STATIC.parent / "templates").iterdir())
    assert re.findall(r"asset\('([^']+\.css)'\)", templates) == [SHEET]


folders = pytest.mark.parametrize("folder", FOLDERS, ids=("served", "tests"))


@folders
def test_each_file_is_the_published_one(folder: Path) -> None:
    listed = json.loads((folder / "vendor.json").read_text())
    there = {path.name for path in folder.iterdir()} - {"vendor.json"}
    assert set(listed) == there
    for name, entry in listed.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == entry["sha256"], name


@folders
def test_versions_and_licenses_are_those_of_the_list(folder: Path) -> None:
    packages = FOLDERS[folder]
    listed = json.loads((folder / "vendor.json").read_text())
    found = {(one["package"], one["version"], one["license"]) for one in listed.values()}
    assert found == {(one.name, one.version, one.license) for one in packages}
    for package in packages:
        assert f"{package.name}.LICENSE" in listed


# --- Charts: round numbers, bars in place, lines in place, and nothing of the data as markup ------


START = datetime(2030, 1, 1, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        (0, 10, [0, 5, 10]),
        (0, 100, [0, 50, 100]),
        (0.1, 0.9, [0.2, 0.4, 0.6, 0.8]),
        (-5, 5, [-5, 0, 5]),
        (3, 3, [3]),
    ],
)
def test_ticks_are_round(low: float, high: float, found: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(found)


_TINY = sys.float_info.min
_EDGES = (0.0, 1.0, -1.0, 0.1, 1e16, 1e16 + 2, MAX_VALUE, -MAX_VALUE, _TINY, -_TINY)
_numbers = st.one_of(
    st.sampled_from([*_EDGES, *(math.nextafter(one, 0) for one in _EDGES), 5e-324, -1e-323]),
    st.floats(-MAX_VALUE, MAX_VALUE),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_numbers, min_size=1, max_size=5), st.lists(_numbers, min_size=2, max_size=2))
@example([0.0, 5e-324], [5e-324, 1e-323])
@example([0.1, math.nextafter(0.1, 1)], [_TINY, math.nextafter(_TINY, 1)])
def test_numbers_of_any_size_are_drawn_within_the_drawing(values: list[float], ends: list[float]) -> None:
    xs, band = sorted(set(values)), PlotBand(min(ends), max(ends))
    for plot in (
        Plot("kpi", [PlotLine("l", list(enumerate(values)))], band=band, baseline=ends[0]),
        Plot("curve", [PlotLine("l", [(x, values[-1]) for x in xs])]),
    ):
        assert plot.table and plot.text and len(plot.svg) < 10_000
        places = re.findall(r' c?[xy][12]?="([^"]+)"', plot.svg)
        assert all(-1 <= float(place) <= WIDTH + 1 for place in places)
    assert sparkline("kpi", values)


@pytest.mark.parametrize("seconds", [1, 59, 600, 5000, 86400, 10_000_000])
def test_time_ticks_are_few_and_from_zero(seconds: int) -> None:
    found = list(time_ticks(timedelta(seconds=seconds)))
    assert found[0] == timedelta()
    assert 1 <= len(found) <= 7
    assert time_step(timedelta(seconds=seconds)) > timedelta()


def test_the_horizon_moves_seldom() -> None:
    ends = [horizon(0, now) for now in range(600, 660)]
    assert all(end > now for end, now in zip(ends, range(600, 660), strict=True))
    assert len(set(ends)) <= 3


def bars(found: Gantt | None) -> list[list[tuple[float, float]]]:
    """Left and width of the bars of each row, in per cent."""
    assert found is not None
    return [
        [
            (float(bar.attrib["x"].rstrip("%")), float(bar.attrib["width"].rstrip("%")))
            for bar in ElementTree.fromstring(str(svg)).iter("rect")
        ]
        for _, svg in found.rows
    ]


def test_bars_share_one_axis() -> None:
    lanes = [
        Lane("a", "Failed", at(0), at(5)),
        Lane("b", "Running", at(10), at(20)),
        Lane("c", "Waiting"),
    ]
    assert bars(gantt(lanes, at(99))) == [[(0, 25)], [(50, 50)], []]
    assert [lane.length for lane in lanes] == ["5m", "10m", ""]


def test_a_bar_that_goes_on_ends_at_the_edge() -> None:
    lanes = [Lane("a", "Succeeded", at(0), at(10)), Lane("b", "Running", at(10))]
    (_, ((left, width),)) = bars(gantt(lanes, at(20)))
    assert left + width == pytest.approx(100, abs=0.1)
    assert lanes[1].length == ""


def test_short_and_negative_times_are_still_seen() -> None:
    """Clocks of several clusters may differ, and times have whole seconds."""
    spans = ((0, 600), (600, 600), (300, 299))
    for ((left, width),) in bars(gantt([Lane("a", "x", at(a), at(b)) for a, b in spans], at(0))):
        assert 0 <= left <= 100 - width
        assert width > 0


def test_nothing_has_begun() -> None:
    assert gantt([Lane("a", "Waiting")], at(0)) is None


def test_texts_of_bars_are_escaped() -> None:
    found = gantt([Lane("<script>", '"><script>', at(0), at(1))], at(1))
    assert found is not None
    assert "<script>" not in found.rows[0][1]


PLOT = Plot("t", [PlotLine("a", [(1, 10), (2, 20), (4, 0)]), PlotLine("b", [(1, 5), (4, 8)])], "req/s", "ms")


def test_lines_are_drawn_over_one_axis() -> None:
    drawn = ElementTree.fromstring(str(PLOT.svg))
    first, second = [
        [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
        for line in drawn.iter("polyline")
    ]
    assert first[0][0] == second[0][0] and first[-1][0] == second[-1][0]
    assert first[1][0] - first[0][0] == pytest.approx((first[2][0] - first[0][0]) / 3, abs=0.2)
    assert first[1][1] < first[0][1] < first[2][1], "y grows upwards"
    assert drawn.attrib["aria-hidden"] == "true"  # `text` stands for it


def test_a_plot_with_band_marks_and_markup() -> None:
    plot = Plot(
        "<b>",
        [PlotLine("<i>", [(0, 1), (1, 1)])],
        "<u>",
        band=PlotBand(0.9, 1.1),
        marks=[PlotMark(1, "x", "<s>")],
    )
    svg = str(plot.svg)
    assert not re.search(r"<(b|i|u|s)>", svg)
    ElementTree.fromstring(svg)


@pytest.mark.parametrize(
    "points", [[], [(1, 1)], [(1, 0), (2, 0)], [(5, -3), (6, -2)], [(0, 1e300), (1, -1e300)]]
)
def test_odd_points_are_drawn(points: list[tuple[float, float]]) -> None:
    svg = str(Plot("t", [PlotLine("a", points)]).svg)
    assert "nan" not in svg.lower()
    if svg:
        ElementTree.fromstring(svg)


def test_a_plot_has_its_values_in_words_and_as_a_table() -> None:
    lines = (
        PlotLine("one", [(0, 4.0), (1, 2.0), (2, 3.0)]),
        PlotLine("other", [(1, 7.5)]),
        PlotLine("none", []),
    )
    plot = Plot("throughput", lines, y_title="tokens/s", labels=("night 1", "night 2", "night 3"))
    assert plot.text == (
        "throughput. one: 3 values, first 4, last 3, lowest 2, highest 4 tokens/s. "
        "other: 1 value, first 7.5, last 7.5, lowest 7.5, highest 7.5 tokens/s"
    )
    assert [(x, ys) for x, ys, _ in plot.table] == [
        ("night 1", ["4", "", ""]),
        ("night 2", ["2", "7.5", ""]),
        ("night 3", ["3", "", ""]),
    ]
    assert Plot("t", (PlotLine("l", [(0.5, 1)]),)).table == [("0.5", ["1"], None)]


def test_points_of_runs_lead_to_them() -> None:
    runs = [PlotRun("one", "/jobs/n/one"), PlotRun("two", "/jobs/n/two")]
    plot = Plot("t", [PlotLine("k", [(0, 5), (1, 6)])], labels=["mon", "tue"], runs=runs, baseline=9.0)
    assert [run and run.name for _, _, run in plot.table] == ["one", "two"]
    links = re.findall(r'<a href="([^"]+)" tabindex="-1"><circle[^>]+><title>([^<]+)</title>', plot.svg)
    assert links == [("/jobs/n/one", "one · mon · k: 5"), ("/jobs/n/two", "two · tue · k: 6")]
    assert 'class="baseline"' in plot.svg, "within the drawn range, although no value is there"
