"""A tab of a real browser, and what every page must satisfy in it.

A tab collects each error of the console, each exception, each failed request and each report of the Content
Security Policy.  The fixture that opened it looks at them when the test ends.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import (
    BrowserContext,
    CDPSession,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    Response,
    ViewportSize,
)

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")
AXE_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
LIMIT = 60_000.0
"""Milliseconds for whatever a browser does: a busy machine is not a fault."""
SHIFT = 0.05
"""The limit of Cumulative Layout Shift; Core Web Vitals call 0.1 good."""
BEFORE_PAINT = ("site.css", "theme.js")
"""What a browser loads before it paints."""

_OBSERVE = """
window.fournosShift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.fournosShift += entry.value;
}).observe({ type: "layout-shift", buffered: true });
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`Content Security Policy: ${event.violatedDirective} ${event.blockedURI}`);
});
"""
_FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex='0']"
_REACHABLE = f"""() => [...document.querySelectorAll({json.dumps(_FOCUSABLE)})]
  .filter((one) => one.checkVisibility() && !one.disabled && one.tabIndex >= 0 && one.type !== "hidden")
  .filter((one) => one.type !== "radio" || one.checked || !document.querySelector(
    `input[type=radio][name="${{one.name}}"]:checked`))
  .map((one) => one.cloneNode().outerHTML)"""
_FOCUSED = """() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const style = getComputedStyle(one);
  window.fournosSeen = (window.fournosSeen ?? new Set()).add(one);
  return {
    what: one.outerHTML.slice(0, 120),
    count: window.fournosSeen.size,
    visible: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
  };
}"""
_LOADED = """() => ({
  sheets: [...document.querySelectorAll("link[rel=stylesheet], style")]
    .map((one) => one.parentElement.localName),
  now: [...document.scripts].filter((one) => !one.defer).map((one) => one.src.split("/").at(-1)),
  blocking: performance.getEntriesByType("resource").filter((one) => one.renderBlockingStatus === "blocking")
    .map((one) => one.name.split("/").at(-1)),
})"""
_CUT = """() => [...document.querySelectorAll("main :is(h1, h2, h3, p, li, dd, label, button)")]
  .concat([...document.querySelectorAll(":is(.stack, .jobs) td")])
  .filter((one) => one.checkVisibility())
  .filter((one) => !one.closest(".hidden, pre, .log, .table:not(.jobs):has(table:not(.stack))"))
  .filter((one) => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((one) => one.outerHTML.slice(0, 120))"""
_MARKED = """() => [...document.querySelectorAll("nav [aria-current]")]
  .map((one) => getComputedStyle(one).borderTopStyle !== "none")"""


_WALKS: Final = 5
WIDE: Final[ViewportSize] = {"width": 1280, "height": 900}
PHONE: Final[ViewportSize] = {"width": 390, "height": 844}


@dataclass
class Tab:
    """One tab in a context of its own: its cookies are those of one login."""

    context: BrowserContext
    page: Page
    base: str
    problems: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()
    """Parts of problems that the test causes on purpose."""

    asked: list[int] = field(default_factory=list)
    """The statuses of the answers that an open tab got to its questions for changes."""
    _debugger: CDPSession | None = None

    @classmethod
    def open(cls, context: BrowserContext, base: str) -> Tab:
        """Opens the first tab of a context."""
        context.set_default_timeout(LIMIT)
        context.add_init_script(_OBSERVE)
        return cls(context, context.new_page(), base)

    def __post_init__(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.problems.append(f"exception: {error}"))
        self.page.on("requestfailed", self._failed)
        self.page.on("response", self._answered)

    def beside(self) -> Tab:
        """Opens another tab of the same browser: both share cookies and locks."""
        return Tab(self.context, self.context.new_page(), self.base)

    def _answered(self, response: Response) -> None:
        if response.request.resource_type == "fetch":
            self.asked.append(response.status)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console {message.type}: {message.text}")

    def _failed(self, request: Request) -> None:
        # A request that the browser itself ends, because the tab goes elsewhere, is not a failure.
        if request.failure != "net::ERR_ABORTED":
            self.problems.append(f"request failed: {request.url}: {request.failure}")

    def closed(self) -> list[str]:
        """Closes the tab; returns the problems that the test did not expect."""
        self.page.close()
        return [one for one in self.problems if not any(part in one for part in self.expected)]

    # --- going about -----------------------------------------------------------------------------

    def goto(self, path: str, *, status: int = 200) -> None:
        """Opens a path of the server and checks the status."""
        response = self.page.goto(self.base + path)
        assert response is not None and response.status == status, (path, response and response.status)

    def is_wide(self) -> None:
        """The pages that follow are in a wide window."""
        self._looks(WIDE, touch=False, dark=False)

    def is_a_phone_in_the_dark(self) -> None:
        """The pages that follow are on a phone whose user prefers dark pages."""
        self._looks(PHONE, touch=True, dark=True)

    def _looks(self, size: ViewportSize, *, touch: bool, dark: bool) -> None:
        self.page.set_viewport_size(size)
        self.page.emulate_media(color_scheme="dark" if dark else "light")
        self._emulate("setTouchEmulationEnabled", enabled=touch)

    @contextmanager
    def without_scripts(self) -> Iterator[None]:
        """Pages that are opened meanwhile run no script; the debugger still does."""
        self._emulate("setScriptExecutionDisabled", value=True)
        yield
        self._emulate("setScriptExecutionDisabled", value=False)

    def _emulate(self, method: str, **parameters: bool) -> None:
        # The session's end would end what it emulates: the first one lasts as long as the tab.
        self._debugger = self._debugger or self.context.new_cdp_session(self.page)
        self._debugger.send(f"Emulation.{method}", parameters)

    def text(self, selector: str = "main") -> str:
        return self.page.locator(selector).inner_text()

    def one(self, selector: str, **filters: Any) -> Locator:
        return self.page.locator(selector, **filters)

    def press(self, what: Locator | str) -> None:
        """Presses a button or link, the one with this text, and waits for the page it leads to."""
        found = self.page.get_by_role("button", name=what, exact=True) if isinstance(what, str) else what
        with self.page.expect_navigation():
            found.click()

    def offer(self, label: str) -> Locator:
        """Opens what a button asks before it acts; returns the form."""
        summary = self.page.locator("summary", has_text=re.compile(rf"^\s*{re.escape(label)}\s*$"))
        form = self.page.locator("details.confirm", has=summary).locator("form")
        assert not form.is_visible(), f"{label} does not ask first"
        summary.click()
        return form

    def confirm(self, label: str, *, reason: str = "") -> None:
        """Presses a button that asks first, and confirms."""
        form = self.offer(label)
        if reason:
            form.locator("input[name=reason]").fill(reason)
        self.press(form.locator("button:not([type])"))

    def stays(self) -> None:
        """Marks the page: `stayed` is true until another one is loaded."""
        self.page.evaluate("() => { window.fournosStays = true; }")

    @property
    def stayed(self) -> bool:
        return bool(self.page.evaluate("() => window.fournosStays === true"))

    @property
    def notice(self) -> str:
        return self.text("p.notice")

    def until(self, look: Callable[[], Any], message: str = "the page does not show it") -> Any:
        """Returns the first true result of `look`, while the browser works."""
        end = time.monotonic() + LIMIT / 1000
        while time.monotonic() < end:
            if found := look():
                return found
            self.page.wait_for_timeout(100)
        raise AssertionError(f"{message}\n{self.text()[:2000]}")

    # --- what every page must satisfy ------------------------------------------------------------

    def is_accessible(self) -> None:
        """axe-core finds nothing."""
        # Evaluated by the debugger: the Content Security Policy of the page stays as it is.
        self.page.evaluate(AXE)
        found = self.page.evaluate(
            "(rules) => axe.run(document, { runOnly: rules, resultTypes: ['violations'] })", AXE_RULES
        )
        assert not found["violations"], "\n".join(
            f"{one['id']}: {one['help']}: {node['html']} {node.get('failureSummary', '')}"
            for one in found["violations"]
            for node in one["nodes"]
        )

    def does_not_scroll_sideways(self) -> None:
        width, there = self.page.evaluate(
            "() => [document.documentElement.clientWidth, document.documentElement.scrollWidth]"
        )
        assert there <= width, f"the page is {there} pixels wide in a window of {width}"

    def reads_in_a_narrow_window(self) -> None:
        """320 pixels, as 1280 at a zoom of 400 %: only tables with columns and logs scroll within."""
        size = self.page.viewport_size
        self.page.set_viewport_size({"width": 320, "height": 640})
        self.does_not_scroll_sideways()
        cut = self.page.evaluate(_CUT)
        assert not cut, f"text reaches out of the window: {cut}"
        if size:
            self.page.set_viewport_size(size)

    def shows_its_state_without_colours(self) -> None:
        """In forced colours a border marks what a background marks otherwise."""
        self.page.emulate_media(forced_colors="active")
        marked = self.page.evaluate(_MARKED)
        self.page.emulate_media(forced_colors="none")
        assert all(marked), "the current entry of the navigation looks like the others"

    def does_not_jump(self) -> None:
        shift = self.page.evaluate("() => window.fournosShift")
        assert shift <= SHIFT, f"the layout shifts by {shift}"

    def paints_at_once(self) -> None:
        """Nothing but the style sheet and the script of the theme is loaded before the first paint."""
        found = self.page.evaluate(_LOADED)
        assert found["sheets"] == ["head"], found
        assert found["now"] == ["theme.js"], "another script is without `defer`"
        assert sorted(found["blocking"]) == sorted(BEFORE_PAINT)

    def works_by_keyboard(self) -> None:
        """Tab reaches all that can be used, each with a visible mark; the first leads to the content."""
        for _ in range(_WALKS):
            wanted = self.page.evaluate(_REACHABLE)
            seen = self._walk(len(wanted))
            if self.page.evaluate(_REACHABLE) == wanted:
                break
            self.page.reload()  # a live change took or gave elements meanwhile, the focused one perhaps
        assert seen >= len(wanted), f"Tab reaches {seen} of {len(wanted)} elements"

    def _walk(self, most: int) -> int:
        """Presses Tab through the page; returns the number of elements that had the focus."""
        seen = 0
        for number in range(most + 1):
            self.page.keyboard.press("Tab")
            focused = self.page.evaluate(_FOCUSED)
            if focused is None:
                break
            assert focused["visible"], f"the focus is not visible: {focused['what']}"
            if number == 0:
                assert 'class="skip"' in focused["what"], focused["what"]
            seen = focused["count"]
        return seen
