"""A run as one file: everything is in it, nothing of it is code, and nothing is fetched."""

from __future__ import annotations

from datetime import timedelta
from html.parser import HTMLParser

from fournos.history.artifacts.rules import Artifact
from fournos.history.export.html import as_html
from fournos.history.export.model import Export, ExportedLog
from fournos.history.records import Interval, Run
from fournos.history.results.models import Kpi, ResultRecord
from fournos.insight.causes import Cause
from tests.history import a_run, at, ended

HOSTILE = (
    "\x1b[2J<script src=https://evil.example/x.js onload=a></script>\"'</pre></style></title><img src=x>"
)


class Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def run(text: str) -> Run:
    return ended(
        a_run(
            1,
            name="llama-7b",
            message=text,
            owner=text,
            target=text,
            pipeline="forge",
            gpu_type="h200",
            gpu_count=8,
            queued_at=at(2),
            admitted_at=at(10),
            started_at=at(20),
            labels={"team": text},
        )
    )


def full(text: str = "plain") -> Export:
    curve = Kpi(kpi_id="scaling", values=((1.0, 10.0), (8.0, 60.5)), y_unit=text, x_unit="users")
    results = (
        ResultRecord(labels={"load": text}, kpis=(Kpi(kpi_id="tput", value=1234.5, unit="tok/s"), curve)),
        ResultRecord(
            labels={"load": "b"}, kpis=(Kpi(kpi_id="tput", value=-3.0, unit="tok/s"),), success=False
        ),
    )
    task = {"name": text, "started": "2026-03-01T08:00:21Z", "finished": "2026-03-01T08:00:51Z"}
    return Export(
        run(text),
        at(100),
        (Interval(at(1), at(20), Cause.LOCK, f"held by {text}"), Interval(at(20), None, Cause.IMAGE_PULL)),
        {
            "object": {"spec": {"env": {"A": text}}},
            "tasks": [{"attempt": 1, "tasks": [task, {"name": "never", "started": None}]}],
            "events": [{"at": "2026-03-01T08:00:02Z", "reason": "Admitted", "note": text, "count": 1}],
            "quota": {"podSets": [{"name": "main", "resources": {"gpu": "8"}}]},
            "provenance": {"images": {"task/step": {"imageID": f"sha256:{text}"}}},
            "problems": [text],
        },
        results,
        (Artifact(text, 5, "ab" * 32, at(50)),),
        (ExportedLog("run/main", f"first\n{text}\n", cut=f"cut {text}"),),
    )


def test_everything_of_the_run_is_in_it() -> None:
    page = Page(as_html(full()))
    assert page.tags.count("h2") == 9
    for words in (
        "llama-7b",
        "8 x h200",
        "held by plain",
        "Lock",
        "ImagePull",
        "1234.5",
        "2 points",
        "failed",
        "Not stored: plain",
        "task/step.imageID",
        "sha256:plain",
        "Admitted",
        "ab" * 32,
        "A: plain",
        "first\nplain",
        "cut plain",
        "task plain",
        "2026-03-01 08:00:20 UTC",
    ):
        assert words in page.text, words
    assert page.tags.count("svg") == 3, "the timeline, the curve, and the two values of one KPI"
    assert page.tags.count("polyline") == 1 and "never" not in page.text


def test_every_text_is_escaped_and_nothing_is_fetched() -> None:
    html = as_html(full(HOSTILE))
    page = Page(html)
    assert {"script", "img", "a", "link", "iframe", "object"}.isdisjoint(page.tags)
    assert not {name for name in page.attributes if name.startswith("on") or name in ("href", "src")}
    assert "\x1b" not in html
    assert "default-src 'none'" in html
    assert page.tags == Page(as_html(full())).tags, "a text adds no element"


def test_a_run_of_which_little_is_known() -> None:
    page = Page(as_html(Export(a_run(1), at(5))))
    assert page.tags.count("h2") == 1 and "Timeline" in page.text
    assert "Pending" in page.text


def test_times_that_go_backwards_are_drawn_without_length() -> None:
    odd = a_run(1, started_at=at(-50), ended_at=at(-90))
    assert 'width="-' not in as_html(Export(odd, at(0) - timedelta(days=1)))


def test_many_tests_are_bounded() -> None:
    records = tuple(
        ResultRecord(labels={"n": str(n)}, kpis=(Kpi(kpi_id="tput", value=float(n)),)) for n in range(300)
    )
    wide = tuple(ResultRecord(kpis=(Kpi(kpi_id=f"k{n}", value=1.0),)) for n in range(300))
    page = Page(as_html(Export(a_run(1), at(5), results=records)))
    assert page.tags.count("rect") == 1 + 100 and "the first 100 of 300 tests" in page.text
    assert "Of 300 KPIs the first 100 are drawn" in as_html(Export(a_run(1), at(5), results=wide))
