"""Verdicts over weeks of results, and what the page remembers of a person: the lab of the pictures."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser

from fournos.web.pages import jobs
from tests.e2e.web.conftest import OpenTab
from tests.e2e.web.lab import NIGHTLY, SLOWER, lab
from tests.e2e.web.staged import NS, Staged, staged


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staged]:
    with staged(lab, tmp_path_factory.mktemp("lab")) as found:
        yield found


def test_times_are_relative_or_in_utc(stage: Staged, browser: Browser, open_tab: OpenTab) -> None:
    """On the way: Escape closes a question."""
    tab = open_tab(f"/jobs/{NS}/{NIGHTLY}", served=stage.served(browser))
    form = tab.offer("Delete")
    form.locator("button:not([type])").focus()
    tab.page.keyboard.press("Escape")
    assert not form.is_visible() and "Delete" in tab.text(":focus")
    submitted, button = tab.one("dl.headline time"), tab.one("#times")
    tab.until(lambda: "ago" in submitted.inner_text())
    button.click()
    exact = submitted.get_attribute("title")
    assert exact and exact.endswith(" UTC") and submitted.inner_text() == exact
    tab.page.reload()
    tab.until(lambda: button.get_attribute("aria-pressed") == "true")
    assert submitted.inner_text() == exact
    button.click()
    assert "ago" in submitted.inner_text()


_BROKEN = """() => {
  const broken = [], range = document.createRange();
  const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (!node.parentElement.closest("td, th") || node.parentElement.closest(".pairs, pre")) continue;
    for (const word of node.data.matchAll(/[^\\s-]{1,24}-?/g)) {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((one) => Math.round(one.top)));
      if (lines.size > 1) broken.push(word[0]);
    }
  }
  return broken;
}"""
"""The pieces of texts in tables that stand on two lines; what may break is in a piece of its own."""


@pytest.mark.parametrize(
    "path", ["/", "/queue", "/jobs", "/benchmarks", f"/jobs/{NS}/{NIGHTLY}", "/schedules"]
)
def test_no_number_and_no_word_breaks_in_its_middle(
    path: str, stage: Staged, browser: Browser, open_tab: OpenTab
) -> None:
    tab = open_tab(path, served=stage.served(browser))
    for width in (1280, 1024):
        tab.page.set_viewport_size({"width": width, "height": 800})
        assert tab.page.evaluate(_BROKEN) == []


def test_a_regression_is_acknowledged_and_withdrawn(
    stage: Staged, browser: Browser, open_tab: OpenTab
) -> None:
    tab = open_tab(f"/trends/{NS}/{NIGHTLY}", served=stage.served(browser))
    assert f"since nightly-70b-{SLOWER}" in tab.text("#changes-title + .panel")
    change = tab.one(".change[data-kind=regression]").first
    change.locator("summary", has_text="Acknowledge").click()
    change.locator("input[name=reason]").fill("the new vllm")
    tab.press(change.locator("form button"))
    assert "Acknowledged" in tab.notice and "Acknowledged by ann" in tab.text()
    assert "the new vllm" in tab.text()
    tab.confirm("Withdraw")
    assert "withdrawn" in tab.notice and "the new vllm" not in tab.text("main")


def test_a_point_of_a_trend_opens_its_run(stage: Staged, browser: Browser, open_tab: OpenTab) -> None:
    tab = open_tab(f"/trends/{NS}/{NIGHTLY}", served=stage.served(browser))
    point = tab.one(".trend .chart a").first
    assert "nightly-70b-01" in point.locator("title").inner_html()
    tab.press(point)
    assert "nightly-70b-01" in tab.text("h1")


def test_marks_go_with_the_pages_of_the_list(
    stage: Staged, browser: Browser, open_tab: OpenTab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "ROWS", 20)
    tab = open_tab("/jobs?text=nightly", served=stage.served(browser))
    tab.one("tbody .pick input").first.check()
    first = tab.one("tbody .pick input").first.get_attribute("value")
    tab.press(tab.one("button", has_text="Earlier jobs"))
    assert "1 marked on other pages" in tab.text("nav.pages")
    last = tab.one("tbody .pick input").last
    last.check()
    second = last.get_attribute("value")
    tab.press(tab.one("button", has_text="Newest"))
    assert tab.one("tbody .pick input").first.is_checked()
    tab.press(tab.one("button", has_text="Compare the marked jobs"))
    assert {first, second} == set(parse_qs(urlsplit(tab.page.url).query)["job"])
    assert "(reference)" in tab.text("main")


def test_a_day_is_chosen_from_the_calendar(stage: Staged, browser: Browser, open_tab: OpenTab) -> None:
    tab = open_tab("/jobs", served=stage.served(browser))
    tab.one("button[aria-label='From: choose a day']").click()
    calendar = tab.page.locator(".day input[type=date]")
    calendar.evaluate("(field) => { field.value = '2026-01-31'; field.dispatchEvent(new Event('change')); }")
    field = tab.one("input[name=since]")
    assert field.input_value() == "2026-01-31"
    assert tab.page.evaluate("() => document.activeElement.name") == "since"
