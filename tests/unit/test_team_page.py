"""docs/for-a-team.md: its bindings give what the commands need, as `fournos doctor` lists it."""

from __future__ import annotations

import re
from typing import Any

from devcluster import manifests
from fournos.insight.doctor_access import NEEDS
from tests.unit.test_docs import ROOT

PAGE = ROOT / "docs" / "for-a-team.md"


def granted(roles: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    """Group, resource (with its subresource) and verb."""
    return {
        (group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_its_roles_have_the_rights_that_the_commands_need() -> None:
    """Those on FournosClusters, which are in another namespace, are left out."""
    shipped = [
        item
        for path in (
            (ROOT / "manifests" / "rbac").glob("*.yaml"),
            (ROOT / "deploy" / "history").glob("*.yaml"),
        )
        for file in path
        for item in manifests.parse(file.read_text(encoding="utf-8"))
        if item["kind"] == "ClusterRole"
    ]
    bound = re.findall(r"--clusterrole=(\S+)", PAGE.read_text(encoding="utf-8"))
    by_name = {item["metadata"]["name"]: item for item in shipped}
    rights = granted([by_name[name] for name in bound])
    for need in NEEDS:
        if need.resource.plural != "fournosclusters":
            name = need.resource.plural + (f"/{need.subresource}" if need.subresource else "")
            assert {(need.resource.group, name, verb) for verb in need.verbs} <= rights, need
    assert ("history.fournos.dev", "runs", "list") in rights
