"""docs/new-system.md is a program: its blocks, one after the other, are this module, tests included."""

from __future__ import annotations

from tests.unit.test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "new-system.md"

for _number, _block in enumerate(blocks(PAGE, "python"), 1):
    exec(compile(_block, f"{PAGE.name} block {_number}", "exec", dont_inherit=True), globals())


def test_the_page_has_tests_of_its_own() -> None:
    assert [name for name in globals() if name.startswith("test_it_")]
