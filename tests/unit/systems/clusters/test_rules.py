"""The rules of a FournosCluster in Python; tests/integration/clusters feeds the same to an API server."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.fournoscluster import DEFINITION
from fournos.app.generate import files
from fournos.app.parts import kinds
from fournos.engine.api.rules import Violation, violations
from fournos.engine.api.schema_readers import schema_violations
from fournos.systems.clusters.rules import RULES
from tests.unit.systems.clusters.actors import CREATIONS, made


def problems(obj: Any) -> list[Violation]:
    return schema_violations(DEFINITION, obj) or violations(RULES, obj)


def test_every_rule_has_a_case() -> None:
    assert {rule for rule, _, _ in CREATIONS} == {rule.id for rule in RULES}


@pytest.mark.parametrize(("rule", "bad", "good"), CREATIONS)
def test_creation(rule: str, bad: Any, good: Any) -> None:
    assert [violation.rule for violation in problems(bad)] == [rule]
    assert problems(good) == []


def test_a_stored_object_that_breaks_a_rule_can_still_be_unlocked() -> None:
    old = made(ttl="1w", owner="ann")
    assert violations(RULES, {**old, "spec": {**old["spec"], "owner": ""}}, old) == []


def test_the_secret_is_required_and_the_interval_has_no_default() -> None:
    bad = made()
    del bad["spec"]["kubeconfigSecret"]
    assert problems(bad)
    (crd,) = (
        text for text in files()["manifests/crd.yaml"].split("---\n") if "fournosclusters.fournos.dev" in text
    )
    assert "default:" not in crd


def test_columns_are_those_of_the_hearth_readme() -> None:
    shown = [column.name.upper() for column in DEFINITION.columns if not column.priority]
    assert ["NAME", *shown] == ["NAME", "OWNER", "GPUS", "KUBECONFIG", "LOCKED", "AGE"]
    assert DEFINITION in [definition for definition, _ in kinds()]
