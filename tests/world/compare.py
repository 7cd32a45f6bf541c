"""The state of the in-memory world, so that two runs can be compared."""

from __future__ import annotations

import re
from typing import Any

from tests.world.server import Server

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_UID = re.compile(r"\buid-\d+\b")
_VOLATILE = frozenset({"uid", "resourceVersion", "generation", "creationTimestamp", "observedGeneration"})


def snapshot(server: Server) -> dict[str, Any]:
    """All objects, with times hidden and UIDs replaced by what they name."""
    names = {
        obj["metadata"]["uid"]: f"<{obj.get('kind', resource.kind)} {obj['metadata']['name']}>"
        for resource, obj in server.everything()
    }

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [plain(inner) for inner in value]
        if isinstance(value, str):
            return _UID.sub(lambda found: names.get(found[0], "<gone>"), _TIME.sub("<time>", value))
        return value

    objects = {}
    for resource, obj in server.everything():
        meta = obj["metadata"]
        obj["metadata"] = {key: value for key, value in meta.items() if key not in _VOLATILE}
        if isinstance(obj.get("status"), dict):
            obj["status"].pop("observedGeneration", None)
        objects[f"{resource} {meta.get('namespace', '')}/{meta['name']}"] = plain(obj)
    return objects
