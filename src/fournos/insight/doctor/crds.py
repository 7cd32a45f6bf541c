"""Checks that our CRDs are installed, and are those of this client's version.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from fournos.engine.api.conditions import is_true
from fournos.engine.api.crd import crd
from fournos.engine.kube.errors import KubeError, NotFoundError
from fournos.engine.kube.resource import Obj
from fournos.insight.crds import KINDS
from fournos.insight.doctor.facts import DoctorFacts
from fournos.insight.doctor.finding import DoctorFinding, Level, unreadable
from fournos.insight.doctor.versions import APIS, REQUIRED
from fournos.insight.values import spec_of

AREA: Final = "CRDs"


def check_crds(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Compares our CRDs with those of this client's version."""
    for name, expected in _expected().items():
        api = next(one for one in APIS if one.group == spec_of(expected)["group"])
        installed = facts.crds.get(name)
        if isinstance(installed, NotFoundError):
            if api in REQUIRED:
                yield DoctorFinding(AREA, name, Level.FAULT, "it is not installed", api.fix)
            continue
        if installed is None or isinstance(installed, KubeError):
            yield unreadable(AREA, name, installed or KubeError("it was not read"))
        elif not is_true(installed, "Established"):
            fix = f"see why: kubectl describe crd {name}"
            yield DoctorFinding(AREA, name, Level.FAULT, "the API server has not accepted it", fix)
        elif differing := differences(expected, installed):
            text = f"it is of another version: {', '.join(differing)}"
            yield DoctorFinding(AREA, name, Level.WARNING, text, api.fix)
        else:
            yield DoctorFinding(AREA, name, Level.OK, "of this version")


@cache
def _expected() -> dict[str, Mapping[str, Any]]:
    return {definition.name: crd(definition, rules=rules) for definition, rules in KINDS}


def differences(wanted: Mapping[str, Any], found: Obj, *, most: int = 3) -> list[str]:
    """Returns the paths of the fields and rules in which the schemas differ, at most `most` of them."""
    mine, theirs = (dict(_fields(_schema(one), "")) for one in (wanted, found))
    lines = [f"{path} is missing" for path in mine if path not in theirs]
    lines += [f"{path} is unknown to this client" for path in theirs if path not in mine]
    lines += [
        f"the rules of {path or 'the kind'} differ"
        for path in mine
        if theirs.get(path, mine[path]) != mine[path]
    ]
    rest = len(lines) - most
    return [*lines[:most], f"{rest} more"] if rest > 0 else lines


def _schema(document: Mapping[str, Any]) -> Mapping[str, Any]:
    version: Mapping[str, Any] = next(iter(spec_of(document).get("versions") or ()), {})
    found: Mapping[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return found


def _fields(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Yields each field's path and the CEL rules on it."""
    yield path, frozenset(str(one.get("rule")) for one in schema.get("x-kubernetes-validations") or ())
    for name, inner in (schema.get("properties") or {}).items():
        yield from _fields(inner, f"{path}.{name}".removeprefix("."))
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(inner := schema.get(key), Mapping):
            yield from _fields(inner, f"{path}{mark}")
