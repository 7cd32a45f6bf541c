"""Status writes of other controllers."""

from __future__ import annotations

from typing import Any

from fournos.engine.api.conditions import Condition, upsert
from fournos.engine.kube.resource import Obj, Resource, key_of
from tests.world.server import Server


def set_conditions(server: Server, resource: Resource, obj: Obj, *wanted: Condition, **status: Any) -> None:
    """Adds to what `obj`'s status has, in one write; `status`: top-level fields, None removes one."""
    conditions = list((obj.get("status") or {}).get("conditions") or ())
    for one in wanted:
        conditions = upsert(conditions, one, now=server.clock.now())
    body = {"status": {"conditions": conditions, **status}}
    server.patch(resource, key_of(obj), body, subresource="status")
