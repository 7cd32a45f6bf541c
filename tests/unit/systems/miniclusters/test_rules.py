"""The objects that the rules refuse, and the remedies in the messages."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.systems.miniclusters.rules import RULES, check_manifest
from tests.minicluster_cases import CHANGES, CREATIONS, FREE, Case, Change, minicluster, of
from tests.rule_cases import merged


def broken(new: Any, old: Any = None) -> dict[str, str]:
    return {violation.rule: violation.message for violation in check_manifest(new, old)}


@pytest.mark.parametrize("case", CREATIONS, ids=lambda case: case.rule)
def test_a_creation_is_refused_with_the_fix(case: Case) -> None:
    found = broken(case.bad)
    assert case.says in found[case.rule]
    assert broken(case.good) == {}


def stored(change: Change) -> dict[str, Any]:
    return minicluster(change.spec) | ({"status": {"maximumSize": change.maximum}} if change.maximum else {})


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.rule)
def test_a_change_is_refused_with_the_fix(change: Change) -> None:
    old = stored(change)
    found = broken(merged(old, {"spec": change.patch}), old)
    assert change.says in found[change.rule]


@pytest.mark.parametrize(("spec", "patch"), FREE)
def test_a_change_passes(spec: Any, patch: Any) -> None:
    old = minicluster(spec)
    assert broken(merged(old, {"spec": patch}), old) == {}


def test_every_rule_has_a_case() -> None:
    assert {rule.id for rule in RULES} == {case.rule for case in (*CREATIONS, *CHANGES)}


def test_what_was_stored_before_a_rule_can_still_be_changed() -> None:
    old = minicluster(of(size=0))
    labelled = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert broken(labelled, old) == {}


def test_a_number_where_a_quantity_is_meant_is_refused() -> None:
    """The page: a text or a whole number, an error for anything else."""

    def with_cpu(amount: Any) -> dict[str, Any]:
        return minicluster(of(containers=[{"image": "x", "resources": {"limits": {"cpu": amount}}}]))

    assert broken(with_cpu(4)) == broken(with_cpu("4")) == broken(with_cpu("500m")) == {}
    assert set(broken(with_cpu(0.5))) == set(broken(with_cpu("four"))) == {"schema"}
