"""Opens pages in Chromium: when each is painted first, and how much it moves while it loads."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from playwright.async_api import Browser, Page, async_playwright

from devcluster import browser as chromium

SETTLED: Final = 300
"""Milliseconds after the load in which scripts may still move something."""
_LIMIT: Final = 60_000.0
_SIZE: Final = {"width": 1440, "height": 900}
_OBSERVE: Final = """
window.benchShift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.benchShift += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""
_READ: Final = """async (settled) => {
  const paint = await new Promise((resolve) => {
    new PerformanceObserver((list) => {
      for (const entry of list.getEntriesByName("first-contentful-paint")) resolve(entry.startTime);
    }).observe({ type: "paint", buffered: true });
  });
  await new Promise((resolve) => setTimeout(resolve, settled));
  return [paint, performance.getEntriesByType("navigation")[0].responseStart, window.benchShift];
}"""


@dataclass(frozen=True, slots=True)
class Look:
    """One load of a page; milliseconds since the navigation began."""

    paint: float
    """First contentful paint."""
    answer: float
    """The first byte of the page."""
    shift: float
    """Cumulative Layout Shift."""


@dataclass(frozen=True, slots=True)
class Painted:
    path: str
    cold: tuple[Look, ...]
    """With an empty cache of the browser."""
    warm: tuple[Look, ...]
    """Once more in the same browser: only the page itself is asked for."""

    @property
    def shift(self) -> float:
        return max(look.shift for look in (*self.cold, *self.warm))


async def measure_paint(
    base: str, cookies: Sequence[dict[str, str]], paths: Sequence[str], loads: int
) -> list[Painted]:
    """Loads each page so many times; `cookies` are those of a person each, taken in turns."""
    persons = itertools.cycle(cookies)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium.program(), args=chromium.arguments(), timeout=_LIMIT
        )
        # The first page of a browser waits for its processes.
        await _looks(browser, base, next(persons), paths[0])
        painted: list[Painted] = []
        for path in paths:
            looks = [await _looks(browser, base, next(persons), path) for _ in range(loads)]
            painted.append(Painted(path, tuple(cold for cold, _ in looks), tuple(warm for _, warm in looks)))
        await browser.close()
    return painted


async def _looks(browser: Browser, base: str, cookies: dict[str, str], path: str) -> tuple[Look, Look]:
    """Loads a page in a browser that knows nothing, and once more."""
    kept: list[Any] = [{"name": name, "value": value, "url": base} for name, value in cookies.items()]
    context = await browser.new_context(viewport=cast(Any, _SIZE))
    context.set_default_timeout(_LIMIT)
    await context.add_cookies(kept)
    await context.add_init_script(_OBSERVE)
    page = await context.new_page()
    cold = await _look(page, base + path)
    await page.goto("about:blank")
    warm = await _look(page, base + path)
    await context.close()
    return cold, warm


async def _look(page: Page, address: str) -> Look:
    answer = await page.goto(address)
    if answer is None or not answer.ok:
        raise RuntimeError(f"{address} answers with {answer and answer.status}")
    return Look(*await page.evaluate(_READ, SETTLED))
