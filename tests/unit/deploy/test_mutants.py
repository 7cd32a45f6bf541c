"""`make mutants`: what it reads of the tool's output."""

from __future__ import annotations

import tomllib

import pytest

from dev.mutants import DECISIONS, ROOT, Survivor, survivor, survivors, table

DIFF = """\
--- src/fournos/queueing/ensure.py
+++ src/fournos/queueing/ensure.py
@@ -1,4 +1,4 @@
 def found(job):
-    if job["spec"].get("suspend"):
-        return True
+    if not job["spec"].get("suspend"):
+        return True
     return False
"""


def test_survivors_are_named_in_the_list_of_results() -> None:
    results = "    fournos.a.x_b__mutmut_1: survived\n    fournos.a.x_b__mutmut_2: timeout\n"
    assert survivors(results) == ["fournos.a.x_b__mutmut_1"]


def test_a_survivor_is_shown_in_two_lines() -> None:
    found = survivor("fournos.a.x_b__mutmut_1", DIFF)
    assert str(found).splitlines() == [
        "fournos.a.x_b__mutmut_1",
        '  - if job["spec"].get("suspend"): return True',
        '  + if not job["spec"].get("suspend"): return True',
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [('say("a")', 'say("XXaXX")', True), ('say("a")', "say(None)", False), ("a or b", "a and b", False)],
)
def test_changes_of_texts_are_distinguished(before: str, after: str, expected: bool) -> None:
    assert Survivor("x", before, after).of_a_text is expected


@pytest.mark.parametrize("module", DECISIONS)
def test_the_modules_that_are_changed_exist_and_have_tests(module: str) -> None:
    settings = tomllib.loads(table([module]))["tool"]["mutmut"]
    assert list(ROOT.glob(settings["only_mutate"][0]))
    assert list(ROOT.glob(settings["pytest_add_cli_args_test_selection"][0]))
