"""Objects that cannot be read, of another release or with odd values: one of them ends no list."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from fournos.api import appwrapper, fournoscluster, fournosjob, fournosschedule, minicluster
from fournos.api.kinds import APPWRAPPER, FOURNOS_CLUSTER, FOURNOS_JOB, FOURNOS_SCHEDULE, MINICLUSTER
from fournos.engine.api.schema_readers import schema_violations
from fournos.engine.kube.api import Listing
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.insight.errors import FournosError, KubeError
from fournos.insight.source import Source

T = TypeVar("T")
_DEFINITIONS: Final = {
    APPWRAPPER: appwrapper.DEFINITION,
    FOURNOS_CLUSTER: fournoscluster.DEFINITION,
    FOURNOS_JOB: fournosjob.DEFINITION,
    FOURNOS_SCHEDULE: fournosschedule.DEFINITION,
    MINICLUSTER: minicluster.DEFINITION,
}


def shown_all(resource: Resource, objects: list[Obj], show: Callable[[list[Obj]], T]) -> T:
    """Returns what `show` makes of the objects; if it fails, with stubs for those that it fails for."""
    try:
        return show(objects)
    except (FournosError, KubeError):
        raise
    except Exception:
        return show([_or_stub(resource, obj, show) for obj in objects])


def _or_stub(resource: Resource, obj: Obj, show: Callable[[list[Obj]], Any]) -> Obj:
    try:
        show([obj])
    except Exception as error:
        return stub(obj, problem_of(resource, obj) or f"{type(error).__name__}: {error}")
    return obj


def stub(obj: Obj, problem: str) -> Obj:
    """Returns an object of the same name that has nothing but its problem."""
    status = {"message": f"cannot be shown: {problem:.200}", "conditions": []}
    identity = {name: obj[name] for name in ("apiVersion", "kind", "metadata") if name in obj}
    return {**identity, "spec": {}, "status": status}


def problem_of(resource: Resource, obj: Obj) -> str:
    """Returns what of an object its kind does not allow; "" if nothing, or if the kind is not one of ours."""
    definition = _DEFINITIONS.get(resource)
    violations = schema_violations(definition, obj) if definition else ()
    # Unknown fields are those of a newer release, which are not read here.
    known = (violation for violation in violations if "unknown field" not in violation.message)
    return next((f"{violation.field}: {violation.message}" for violation in known), "")


class ReadableSource:
    """A Source with stubs in place of the objects that cannot be read."""

    def __init__(self, source: Source) -> None:
        self._source = source

    async def get(self, resource: Resource, key: Key) -> Obj:
        return await self._source.get(resource, key)

    async def list(
        self, resource: Resource, *, namespace: str = "", selector: str = "", fields: str = ""
    ) -> Listing:
        listing = await self._source.list(resource, namespace=namespace, selector=selector, fields=fields)
        return Listing(_readable(resource, listing.items), listing.resource_version)


def _readable(resource: Resource, objects: Iterable[Obj]) -> list[Obj]:
    problems = ((obj, problem_of(resource, obj)) for obj in objects)
    return [stub(obj, problem) if problem else obj for obj, problem in problems]
