"""The pictures of the documentation are of the page as it is now; verdicts over weeks of results."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.e2e.hub import ROOT
from tests.e2e.web.conftest import OpenTab
from tests.e2e.web.lab import NIGHTLY, SLOWER, lab
from tests.e2e.web.pictures import DRAWN, FOLDER, PICTURES, WIDTH, Picture, size_of, take
from tests.e2e.web.staged import NS, Staged, staged

LARGEST = 150_000
SHOWN = re.compile(r"!\[([^\]]*)\]\(images/(web-[^)]+)\)")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staged]:
    with staged(lab, tmp_path_factory.mktemp("lab")) as found:
        yield found


@pytest.mark.parametrize("picture", PICTURES, ids=lambda one: one.name)
def test_a_picture_is_of_this_page(picture: Picture, stage: Staged, browser: Browser) -> None:
    taken, kept = take(browser, stage, picture), (FOLDER / picture.file).read_bytes()
    assert size_of(taken) == size_of(kept) == (WIDTH, picture.height), "make screenshots takes them again"
    assert max(len(taken), len(kept)) <= LARGEST


def test_the_documentation_shows_each_picture_and_says_what_it_is() -> None:
    shown = SHOWN.findall((ROOT / "docs" / "web.md").read_text())
    assert [file for _, file in shown] == [picture.file for picture in PICTURES]
    assert all(len(words) > 20 for words, _ in shown)
    assert {file.name for file in FOLDER.glob("web-*")} == {picture.file for picture in PICTURES}


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


def test_a_point_of_a_trend_opens_its_run_and_compares_with_it(
    stage: Staged, browser: Browser, open_tab: OpenTab
) -> None:
    tab = open_tab(f"/trends/{NS}/{NIGHTLY}", served=stage.served(browser))
    tab.until(lambda: tab.page.evaluate(DRAWN))
    plot = tab.page.locator(".trend .u-over").first
    plot.hover(position={"x": 2, "y": 20})
    assert "nightly-70b-01" in tab.one(".trend .values").first.inner_text()
    plot.click(position={"x": 2, "y": 20}, modifiers=["Shift"])
    tab.until(lambda: "/compare?" in tab.page.url)
    assert "nightly-70b-01 (reference)" in tab.text("main")
    tab.page.go_back()
    tab.until(lambda: tab.page.evaluate(DRAWN))
    tab.page.locator(".trend .u-over").first.click(position={"x": 2, "y": 20})
    tab.until(lambda: "/jobs/" in tab.page.url)
    assert "nightly-70b-01" in tab.text("h1")
