"""What is stored under the CRDs of the release before is valid under these, and the page says what is new."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster import manifests

ROOT = Path(__file__).parents[3]
Schema = dict[str, Any]
SMALLER = ("type", "enum", "required", "pattern", "format", "minimum", "minLength", "minItems")
"""What refuses more values when it is changed."""


def schemas(*paths: Path) -> dict[str, Schema]:
    """Kind → schema of its one version."""
    return {
        item["spec"]["names"]["kind"]: version["schema"]["openAPIV3Schema"]
        for path in paths
        for item in manifests.parse(path.read_text())
        if item["kind"] == "CustomResourceDefinition"
        for version in item["spec"]["versions"]
    }


BEFORE = schemas(ROOT / "tests" / "data" / "release-0.1.0" / "install.yaml")
AFTER = schemas(*(ROOT / "deploy" / "crd").glob("*.yaml"))


def fields(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Each field with its path."""
    yield path, schema
    for name, inner in (schema.get("properties") or {}).items():
        yield from fields(inner, f"{path}.{name}" if path else name)
    for name, ending in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(name), dict):
            yield from fields(schema[name], path + ending)


@pytest.mark.parametrize("kind", BEFORE)
def test_no_field_is_gone_or_takes_fewer_values(kind: str) -> None:
    after = dict(fields(AFTER[kind]))
    for path, was in fields(BEFORE[kind]):
        assert path in after, f"{kind} lost {path}"
        now = after[path]
        assert {name: was.get(name) for name in SMALLER} == {name: now.get(name) for name in SMALLER}, path
        for bound in ("maximum", "maxLength", "maxItems"):
            assert now.get(bound, was.get(bound)) >= was[bound] if bound in was else bound not in now, path


def test_the_page_names_what_the_release_before_does_not_know() -> None:
    page = (ROOT / "docs" / "upgrade.md").read_text()
    for kind, schema in BEFORE.items():
        known = dict(fields(schema))
        new = [path for path, _ in fields(AFTER[kind]) if path not in known]
        outermost = {path for path in new if path.rpartition(".")[0] not in new and path[-1] not in "]}"}
        assert all(f"`{path}`" in page for path in outermost), outermost
