"""Validation rules of AppWrappers that CEL can check, so that the API server enforces them.

CEL cannot see the content of a template. The rest of the published rules is in `admission`.
"""

from __future__ import annotations

from typing import Any, Final

from fournos.engine.api.rules import Json, Rule, same_field

_NAME_MAX: Final = 63


def _kind(component: Json) -> tuple[str, str]:
    template = component.get("template") or {}
    return str(template.get("apiVersion") or "").partition("/")[0], str(template.get("kind") or "")


def _pod_sets(spec: Json) -> list[list[tuple[Any, int]]]:
    return [
        [(one.get("path"), 1 if one.get("replicas") is None else one["replicas"]) for one in pod_sets]
        for pod_sets in (component.get("podSets") or () for component in spec.get("components") or ())
    ]


_PATHS = "{0}.components.map(c, has(c.podSets) ? c.podSets.map(p, p.path) : [])"
_COUNTS = "{0}.components.map(c, has(c.podSets) ? c.podSets.map(p, has(p.replicas) ? p.replicas : 1) : [])"

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        id="name-length",
        at="",
        when="create",
        field="metadata.name",
        message=f"the name labels every pod: choose one of at most {_NAME_MAX} characters",
        cel=f"size(self.metadata.name) <= {_NAME_MAX}",
        holds=lambda new, _: len((new.get("metadata") or {}).get("name") or "") <= _NAME_MAX,
    ),
    Rule(
        id="not-nested",
        field="spec.components",
        reason="FieldValueForbidden",
        message="Nested AppWrappers are forbidden: list the inner one's components instead",
        cel="self.components.all(c, !(c.template.kind == 'AppWrapper' && "
        "c.template.apiVersion.startsWith('workload.codeflare.dev/')))",
        holds=lambda new, _: all(
            _kind(component) != ("workload.codeflare.dev", "AppWrapper")
            for component in new.get("components") or ()
        ),
    ),
    Rule(
        id="components-fixed",
        when="update",
        field="spec.components",
        reason="FieldValueForbidden",
        message="attempt to change immutable field: make a new AppWrapper to add or remove components",
        cel="size(self.components) == size(oldSelf.components)",
        holds=lambda new, old: len(new.get("components") or ()) == len(old.get("components") or ()),
    ),
    Rule(
        id="podsets-fixed",
        when="update",
        field="spec.components",
        reason="FieldValueForbidden",
        message="attempt to change immutable field: path and replicas of podSets stay as they are",
        cel=f"{_PATHS.format('self')} == {_PATHS.format('oldSelf')} && "
        f"{_COUNTS.format('self')} == {_COUNTS.format('oldSelf')}",
        holds=lambda new, old: _pod_sets(new) == _pod_sets(old),
    ),
    Rule(
        id="managedby-fixed",
        when="update",
        field="spec.managedBy",
        reason="FieldValueForbidden",
        message="attempt to change immutable field: make a new AppWrapper with the other managedBy",
        cel=same_field("managedBy", "self", "oldSelf"),
        holds=lambda new, old: bool(new.get("managedBy") == old.get("managedBy")),
    ),
)
