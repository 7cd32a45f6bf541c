"""The OpenAPI 3.1 document of the routes.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from fournos.history.api.parameters import Parameters
from fournos.history.api.routes import Route
from fournos.history.api.wire import adapter

_REF: Final = "#/components/schemas/{model}"
_VARIABLES: Final = {
    "namespace": "Namespace of the run.",
    "run": "UID or name of the run.",
    "document": "Name of the document.",
    "path": "Path of the artifact.",
}
_OWN: Final = (
    "For the pods of a FournosJob's run, with a token whose audience is history.fournos.dev, or through the "
    "Kubernetes API server with the pod's own token."
)
_STATUS: Final = {
    "type": "object",
    "description": "An error, as a Kubernetes Status.",
    "properties": {
        "kind": {"const": "Status"},
        "message": {"type": "string"},
        "reason": {"type": "string"},
        "code": {"type": "integer"},
    },
    "required": ["kind", "message", "reason", "code"],
}


def document(routes: Iterable[Route], *, version: str) -> dict[str, Any]:
    """Returns the OpenAPI document."""
    schemas: dict[str, Any] = {"Status": _STATUS}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(f"/api/v1{route.path}", {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fournos history",
            "version": version,
            "description": "Runs that are over or under way, their logs and results. Rights are those on "
            "runs.history.fournos.dev of the Kubernetes API server.",
        },
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "description": _OWN
        if route.own
        else f"Needs the right to {route.access.verb} {route.access.resource} of history.fournos.dev.",
        "tags": [route.tag],
        "parameters": [*_variables(route.path), *_query(route.parameters)],
        "responses": {
            **_success(route, schemas),
            "default": {
                "description": "An error.",
                "content": {"application/json": {"schema": {"$ref": _REF.format(model="Status")}}},
            },
        },
    }
    if route.body is not None:
        schema = _schema(route.body, schemas, mode="validation")
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


def _success(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    if route.response is None:
        return {"204": {"description": "Done."}}
    schema = _schema(route.response, schemas, mode="serialization")
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    if route.text:
        content["text/plain"] = {"schema": {"type": "string"}}
    return {"200": {"description": "The result.", "content": content}}


def _schema(kind: Any, schemas: dict[str, Any], *, mode: Any) -> dict[str, Any]:
    schema = adapter(kind).json_schema(by_alias=True, ref_template=_REF, mode=mode)
    schemas.update(schema.pop("$defs", {}))
    title = schema.get("title")
    if schema.get("type") == "object" and title:
        schemas[title] = schema
        return {"$ref": _REF.format(model=title)}
    return schema


def _variables(path: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _VARIABLES[name],
            "schema": {"type": "string"},
        }
        for name in re.findall(r"{(\w+)}", path)
    ]


def _query(model: type[Parameters]) -> list[dict[str, Any]]:
    schema = model.model_json_schema(by_alias=True)
    return [
        {
            "name": name,
            "in": "query",
            "description": field.pop("description", ""),
            "schema": {key: value for key, value in field.items() if key != "title"},
        }
        for name, field in schema.get("properties", {}).items()
    ]
