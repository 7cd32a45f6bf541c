"""`make mutants`: what is changed, and what it prints of the changes."""

from __future__ import annotations

import tomllib

import pytest

from dev import mutants
from dev.mutants import DECISIONS, ROOT, Survivor, module_of, score, survivor, table

DIFF = """\
--- src/fournos/engine/queueing/ensure.py
+++ src/fournos/engine/queueing/ensure.py
@@ -1,4 +1,4 @@
 def found(job):
-    if job["spec"].get("suspend"):
-        return True
+    if not job["spec"].get("suspend"):
+        return True
     return False
"""


@pytest.mark.parametrize("change", ["fournos.a.x_b__mutmut_1", "fournos.a.xǁBǁc__mutmut_12"])
def test_a_change_names_its_module(change: str) -> None:
    assert module_of(change) == "fournos.a"


def test_the_score_counts_by_module() -> None:
    changes = ["fournos.a.x_f__mutmut_1", "fournos.a.x_f__mutmut_2", "fournos.b.x_g__mutmut_1"]
    assert score(changes, changes[1:2]).splitlines() == ["fournos.a: 1 of 2", "fournos.b: 1 of 1"]


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
    assert list(ROOT.glob(f"{mutants.tests(module)}/test_*.py"))
