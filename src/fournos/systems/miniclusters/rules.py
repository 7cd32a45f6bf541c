"""Validation rules of MiniClusters, each for the API server (CEL) and for Python.

Rules with the meaning of upstream's validation come from there. The other rules refuse what could never work.
Rules on containers are in `rules_containers`.
"""

from __future__ import annotations

from typing import Any, Final

from fournos.api.minicluster import DEFINITION, MiniClusterSpec
from fournos.engine.api.rules import Json, Rule, Violation, full_match, same_field, text_rule, violations
from fournos.engine.api.schema_readers import schema_violations
from fournos.engine.queueing.managed_by import fixed_rule
from fournos.systems.miniclusters.rules_containers import CONTAINERS

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME_MAX: Final = 52
"""With "-entrypoint" the name is that of a volume, with an index that of a host: at most 63 characters."""

_FREE: Final = frozenset({"size", "maxSize", "minSize", "suspend", "cleanup", "deadlineSeconds", "managedBy"})
"""These fields take effect at any time, or have rules of their own."""
_FROZEN: Final = tuple(
    alias
    for name, field in MiniClusterSpec.model_fields.items()
    if (alias := str(field.alias or name)) not in _FREE
)


def _size(spec: Json) -> int:
    return int(spec.get("size", 1))


def _fits(limit: str, of: str) -> Any:
    """Returns a check that `limit` is at most `of`. A value that is absent or 0 is not checked."""

    def holds(new: Json, _: Json) -> bool:
        low, high = new.get(limit, 0), _size(new) if of == "size" else new.get(of, 0)
        return not low or not high or bool(low <= high)

    return holds


def _hostlist(flux: Json) -> bool:
    """True if a list of hosts is given in any of its places."""
    bursting = flux.get("bursting") or {}
    leads = (bursting.get("leadBroker") or {}, flux.get("leadBroker") or {})
    return bool(bursting.get("hostlist") or any(lead.get("hostlist") for lead in leads))


def _lead_twice(flux: Json) -> bool:
    return bool(flux.get("leadBroker") and (flux.get("bursting") or {}).get("leadBroker"))


def _maximum(obj: Json) -> int:
    return int((obj.get("status") or {}).get("maximumSize") or 0)


def _within(new: Json, old: Json) -> bool:
    now, then, limit = new.get("spec"), old.get("spec"), _maximum(old)
    if now is None or then is None or not limit:
        return True
    return _size(now) <= limit or _size(now) == _size(then)


def _frozen(new: Json, old: Json) -> bool:
    now, then = new.get("spec"), old.get("spec")
    if now is None or then is None or then.get("suspend"):
        return True
    return all(now.get(name) == then.get(name) for name in _FROZEN)


_HOSTLIST = (
    "((has(self.bursting) && has(self.bursting.hostlist) && self.bursting.hostlist != '') || "
    "(has(self.bursting) && has(self.bursting.leadBroker) && has(self.bursting.leadBroker.hostlist) && "
    "self.bursting.leadBroker.hostlist != '') || "
    "(has(self.leadBroker) && has(self.leadBroker.hostlist) && self.leadBroker.hostlist != ''))"
)
_SAME = " && ".join(map(same_field, _FROZEN))

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        id="name-text",
        at="",
        when="create",
        field="metadata.name",
        message=f"the name becomes that of hosts: at most {_NAME_MAX} lower-case letters, digits and -",
        cel=f"size(self.metadata.name) <= {_NAME_MAX} && self.metadata.name.matches('^{_LABEL}$')",
        holds=lambda new, _: _host_name((new.get("metadata") or {}).get("name") or ""),
    ),
    Rule(
        id="spec-missing",
        at="",
        field="spec",
        reason="FieldValueRequired",
        message="write a spec with at least one container",
        cel="has(self.spec)",
        holds=lambda new, _: new.get("spec") is not None,
    ),
    Rule(
        id="size-positive",
        field="spec.size",
        message="write at least 1; to stop a MiniCluster without deleting it, write suspend: true",
        cel="self.size >= 1",
        holds=lambda new, _: _size(new) >= 1,
    ),
    Rule(
        id="maxsize-size",
        field="spec.maxSize",
        message="MaxSize of cluster must be greater than size: raise maxSize or lower size",
        cel="!has(self.maxSize) || self.maxSize == 0 || self.maxSize >= self.size",
        holds=lambda new, _: not new.get("maxSize") or bool(new["maxSize"] >= _size(new)),
    ),
    Rule(
        id="backofflimit-negative",
        field="spec.backoffLimit",
        message="BackoffLimit of cluster must be greater than 0: write 0 for no other try",
        cel="!has(self.backoffLimit) || self.backoffLimit >= 0",
        holds=lambda new, _: bool(new.get("backoffLimit", 0) >= 0),
    ),
    Rule(
        id="minsize-maxsize",
        field="spec.minSize",
        message="MinSize of cluster must be less than MaxSize: lower minSize or raise maxSize",
        cel="!has(self.minSize) || self.minSize == 0 || !has(self.maxSize) || self.maxSize == 0 || "
        "self.minSize <= self.maxSize",
        holds=_fits("minSize", "maxSize"),
    ),
    Rule(
        id="minsize-size",
        field="spec.minSize",
        message="MinSize of cluster must be less than size: lower minSize or raise size",
        cel="!has(self.minSize) || self.minSize == 0 || self.minSize <= self.size",
        holds=_fits("minSize", "size"),
    ),
    Rule(
        id="hostlist-clusters",
        at="spec.flux",
        field="spec.flux.bursting",
        message="A custom hostlist cannot be provided with a bursting spec, choose one or the other: "
        "remove hostlist or clusters",
        cel=f"!({_HOSTLIST} && has(self.bursting) && has(self.bursting.clusters) && "
        "size(self.bursting.clusters) > 0)",
        holds=lambda new, _: not (_hostlist(new) and (new.get("bursting") or {}).get("clusters")),
    ),
    Rule(
        id="flux-spelling",
        at="spec.flux",
        field="spec.flux",
        message="connectTimeout and connextTimeout are one field, flux.leadBroker and bursting.leadBroker "
        "too: keep one of each",
        cel="!(has(self.connectTimeout) && has(self.connextTimeout)) && "
        "!(has(self.leadBroker) && has(self.bursting) && has(self.bursting.leadBroker))",
        holds=lambda new, _: (
            not ("connectTimeout" in new and "connextTimeout" in new) and not _lead_twice(new)
        ),
    ),
    Rule(
        id="environment-names",
        at="spec.flux",
        field="spec.flux.environment",
        message="the names of variables are letters, digits and _, no digit first",
        cel="!has(self.environment) || self.environment.all(k, k.matches('^[A-Za-z_][A-Za-z0-9_]*$'))",
        holds=lambda new, _: all(
            full_match("[A-Za-z_][A-Za-z0-9_]*", name) for name in new.get("environment") or ()
        ),
    ),
    text_rule(
        "headlessName",
        "write the name of a Service: at most 63 lower-case letters, digits and -, a letter first",
        at="spec.network",
        pattern=_DNS_1035,
        longest=63,
        empty=True,
    ),
    Rule(
        id="view-name",
        at="spec.flux.container",
        field="spec.flux.container.name",
        message="the name of the container that brings Flux is at most 63 lower-case letters, digits and -",
        cel=f"!has(self.name) || self.name == '' || "
        f"(self.name.size() <= 63 && self.name.matches('^{_LABEL}$'))",
        holds=lambda new, _: (
            not new.get("name") or (len(new["name"]) <= 63 and full_match(_LABEL, new["name"]))
        ),
    ),
    text_rule(
        "mountPath",
        "write an absolute path of letters, digits and . _ - such as /mnt/flux",
        at="spec.flux.container",
        pattern="(/[-._A-Za-z0-9]+)+",
        longest=253,
        empty=True,
    ),
    text_rule(
        "managedBy",
        "write a domain, a slash and a name, such as kueue.x-k8s.io/multikueue, in at most 63 characters",
        pattern=r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?",
        longest=63,
    ),
    *CONTAINERS,
    fixed_rule("never changes: make a new MiniCluster with the other managedBy"),
    Rule(
        id="size-maximum",
        at="",
        when="update",
        field="spec.size",
        message="a MiniCluster never gets larger than the maxSize (or size) that it began with, because its "
        "brokers know no more hosts: choose a smaller size, or make a new one with a larger maxSize",
        cel="!has(oldSelf.status) || !has(oldSelf.status.maximumSize) || oldSelf.status.maximumSize == 0 || "
        "self.spec.size <= oldSelf.status.maximumSize || self.spec.size == oldSelf.spec.size",
        holds=_within,
    ),
    Rule(
        id="spec-fixed",
        at="",
        when="update",
        field="spec",
        reason="FieldValueForbidden",
        message="only size, minSize, maxSize, suspend, cleanup and deadlineSeconds change while it is not "
        "suspended: make a new MiniCluster, or write suspend: true first",
        cel=f"(has(oldSelf.spec.suspend) && oldSelf.spec.suspend) || ({_SAME})",
        holds=_frozen,
    ),
)


def _host_name(name: str) -> bool:
    return len(name) <= _NAME_MAX and full_match(_LABEL, name)


def check_manifest(new: Json, old: Json | None = None) -> list[Violation]:
    """Returns the violations of an object that is not validated yet: its schema is checked first."""
    return schema_violations(DEFINITION, new) or violations(RULES, new, old)
