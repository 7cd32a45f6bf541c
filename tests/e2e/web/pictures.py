"""The pictures of docs/web.md: `python -m tests.e2e.web.pictures` takes them again."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, sync_playwright

from devcluster import browser as chromium
from tests.e2e.hub import ROOT
from tests.e2e.web.lab import BEFORE, FAILED, NIGHTLY, lab
from tests.e2e.web.staged import NOW, NS, Staged, staged
from tests.e2e.web.tab import Tab

FOLDER: Final = ROOT / "docs" / "images"
WIDTH: Final = 1280


@dataclass(frozen=True, slots=True)
class Picture:
    name: str
    path: str
    height: int
    colours: Literal["light", "dark"] = "light"

    @property
    def file(self) -> str:
        return f"web-{self.name}.png"


PICTURES: Final = (
    Picture("fleet", "/", 840),
    Picture("fleet-dark", "/", 840, "dark"),
    Picture("queue", "/queue", 680),
    Picture("job", f"/jobs/{NS}/{NIGHTLY}", 1000),
    Picture("logs", f"/jobs/{NS}/{FAILED}/logs?line=13", 720),
    Picture("compare", f"/compare?job={BEFORE}&job={NIGHTLY}", 680),
    Picture("benchmarks", "/benchmarks", 560),
    Picture("trends", f"/trends/{NS}/{NIGHTLY}", 780),
    Picture("submit", f"/submit?from={NS}/{NIGHTLY}", 800),
    Picture("schedules", "/schedules", 620),
)


def take(browser: Browser, stage: Staged, picture: Picture) -> bytes:
    """Returns a PNG; its times are those of the scene, so that it does not change from run to run."""
    state = stage.served(browser).state
    size = {"width": WIDTH, "height": picture.height}
    context = browser.new_context(storage_state=state, viewport=size, color_scheme=picture.colours)
    tab = Tab.open(context, stage.base)
    tab.page.clock.set_fixed_time(NOW)
    tab.goto(picture.path)
    tab.page.evaluate("() => { document.activeElement?.blur(); scrollTo(0, 0); }")
    found = tab.page.screenshot(animations="disabled")
    problems = tab.closed()
    context.close()
    assert not problems, problems
    return found


def _all() -> Iterator[tuple[Picture, bytes]]:
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        program = chromium.program()
        browser = playwright.chromium.launch(executable_path=program, args=chromium.arguments())
        with staged(lab, Path(folder)) as stage:
            for picture in PICTURES:
                yield picture, take(browser, stage, picture)
        browser.close()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for taken, png in _all():
        (FOLDER / taken.file).write_bytes(png)
        print(f"{taken.file} {len(png) // 1000} kB")
