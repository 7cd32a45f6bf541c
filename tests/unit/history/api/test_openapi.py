"""The OpenAPI document is whole, and what is served is what it describes."""

from __future__ import annotations

import re
from typing import Any

from fournos.history.api.all_routes import ROUTES
from fournos.history.api.openapi import document
from tests.unit.history.api.service import run, stage


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if "$ref" in value else set()
        return own.union(*map(_references, value.values()))
    if isinstance(value, list):
        return set().union(*map(_references, value)) if value else set()
    return set()


def test_every_reference_and_every_variable_is_defined() -> None:
    found = document(ROUTES, version="1")
    schemas = found["components"]["schemas"]
    assert {one.rpartition("/")[2] for one in _references(found)} <= set(schemas)
    assert "Identity" in schemas
    names = [operation["operationId"] for path in found["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names)) == len(ROUTES)
    for path, operations in found["paths"].items():
        for operation in operations.values():
            given = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
            assert given == set(re.findall(r"{(\w+)}", path))


async def test_the_served_run_has_exactly_the_described_fields() -> None:
    async with stage() as here:
        here.store.runs = [run("a")]
        here.reviews.may("ann", "list")
        _, body = await here.get("/api/v1/runs")
        _, described = await here.get("/api/v1/openapi.json", "")
    schema = described["components"]["schemas"]["Run"]
    assert set(body["runs"][0]) == set(schema["properties"])
    assert schema["properties"]["resourceVersion"]["description"].startswith("The resourceVersion")
