"""docs/new-system.md and new-system-proof.md are a program: their blocks, in order, are this module."""

from __future__ import annotations

from tests.unit.test_docs import ROOT, blocks

PAGES = [ROOT / "docs" / name for name in ("new-system.md", "new-system-proof.md")]

for _page in PAGES:
    for _number, _block in enumerate(blocks(_page, "python"), 1):
        exec(compile(_block, f"{_page.name} block {_number}", "exec", dont_inherit=True), globals())


def test_the_pages_have_tests_of_their_own() -> None:
    assert [name for name in globals() if name.startswith("test_it_")]
