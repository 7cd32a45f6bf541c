"""A MiniCluster with every field once, filled from the models."""

from __future__ import annotations

from typing import Any, Final

from fournos.api.minicluster import DEFINITION
from fournos.engine.api.crd import Schema, schema

_ALONE: Final = frozenset({"connextTimeout", "leadBroker", "fluxuser", "preWorker", "preBroker", "hostlist"})
"""Second spellings, and what excludes others."""
_SPEC: Final[dict[str, Any]] = {
    "size": 2,
    "maxSize": 4,
    "minSize": 1,
    "managedBy": "a.b/c",
    "suspend": True,
    "mountPath": "/mnt/other",
    "batch": False,
    "batchRaw": False,
    "script": None,
}
"""Values that the rules, or Kubernetes, want so; None leaves the field out."""


def _fill(node: Schema, name: str) -> Any:
    if name in _SPEC:
        return _SPEC[name]
    if "enum" in node:
        return node["enum"][-1]
    if node.get("x-kubernetes-int-or-string"):
        return 3
    match node["type"]:
        case "object" if "properties" in node:
            return _object(node)
        case "object":
            return {"a": _fill(node["additionalProperties"], "")}
        case "array":
            return [_fill(node["items"], "")]
        case "integer":
            return 7
        case "boolean":
            return True
        case _:
            return f"a-{name.lower()}"


def _object(node: Schema) -> dict[str, Any]:
    filled = {name: _fill(child, name) for name, child in node["properties"].items() if name not in _ALONE}
    return {name: value for name, value in filled.items() if value is not None}


EVERYTHING: Final[dict[str, Any]] = _object(schema(DEFINITION.model)["properties"]["spec"])
for _service in EVERYTHING["services"]:
    for _hook in ("pre", "workerPre", "brokerPre"):
        del _service["commands"][_hook]

SPELT_OTHERWISE: Final[dict[str, Any]] = {
    "size": 1,
    "tasks": 1,
    "deadlineSeconds": 60,
    "containers": [
        {
            "image": "ubuntu",
            "fluxuser": {"uid": 1002, "name": "flux"},
            "commands": {"preWorker": "a", "preBroker": "b", "script": "c"},
        }
    ],
    "flux": {
        "connextTimeout": "",
        "leadBroker": {"name": "flux-sample", "address": "24.123.50.123", "port": 30093, "hostlist": "a"},
    },
}
"""Fields that EVERYTHING has under other names."""
