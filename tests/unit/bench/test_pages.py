"""The benchmark of the pages: it runs, and each page is rendered after a change."""

from __future__ import annotations

from bench import pages


async def test_each_page_is_rendered() -> None:
    costs, resident = await pages.measure(40, 0, 2)
    assert [one.page for one in costs] == [
        *("fleet", "queue", "jobs", "usage", "kinds", "submit"),
        "job&bench&job-00000",
        "job&bench&job-00001",
    ]
    assert all(one.bytes > 1_000 and one.p95 >= one.least > 0 for one in costs)
    assert resident > 0
