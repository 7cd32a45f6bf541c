"""The address of an object at an API server: its resource type and its key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard
from urllib.parse import quote

Obj: TypeAlias = Mapping[str, Any]
"""A Kubernetes object as parsed JSON.  Objects from a cache are shared and must never be changed."""


_PLAIN: Final = re.compile(r"[A-Za-z0-9._~-]*")


class Key(NamedTuple):
    """Namespace and name of an object; the namespace is "" for cluster-scoped objects."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource type as the API server serves it (group "" is the core group)."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    by_offset: bool = False
    """True if the pages of its list are asked for by `offset`, without a token (Kueue's visibility API)."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, *, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """Returns the URL path on the server; without a namespace, of all namespaces (lists and watches)."""
        parts = ["", "apis", self.group, self.version] if self.group else ["", "api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", _quoted(namespace)]
        parts.append(self.plural)
        if name is not None:
            parts.append(_quoted(name))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _quoted(segment: str) -> str:
    """Returns a segment of a path.  Names in Kubernetes rarely need quoting, and `quote` is slow."""
    return segment if _PLAIN.fullmatch(segment) else quote(segment, safe="")


def usual_plural(kind: str) -> str:
    """Returns the plural under which most servers serve a kind, by the rule of Kubernetes' own tools."""
    word = kind.lower()
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return f"{word}es"
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}s"


def key_of(obj: Obj) -> Key:
    """Returns namespace and name of an object."""
    meta = obj["metadata"]
    return Key(meta.get("namespace") or "", meta["name"])


def absent(key: Key) -> Obj:
    """Returns a placeholder for an object that does not exist, for logs and Events; it has no UID."""
    return {"metadata": {"namespace": key.namespace, "name": key.name, "uid": ""}}


def uid_of(obj: Obj) -> str:
    """Returns the UID of an object."""
    return str(obj["metadata"]["uid"])


def controller_of(obj: Obj) -> Obj | None:
    """Returns the ownerReference with `controller: true`, if any."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return reference  # type: ignore[no-any-return]
    return None


def owner_uids(obj: Obj) -> frozenset[str]:
    """Returns the UIDs of all owners of an object."""
    return frozenset(str(ref["uid"]) for ref in obj["metadata"].get("ownerReferences") or ())


def controls(owner: Obj, obj: Obj) -> bool:
    """True if `owner` is the controller of `obj`; an owner with the same name and another UID is not."""
    return (controller_of(obj) or {}).get("uid") == uid_of(owner)


def owner_reference(resource: Resource, owner: Obj, *, controller: bool = True) -> dict[str, Any]:
    """Returns the entry of `ownerReferences` for an object that belongs to `owner`, which is of this type.

    Where OwnerReferencesPermissionEnforcement is enabled (OpenShift), that of a controller needs the right to
    update the finalizers of the owner.
    """
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": controller,
        "blockOwnerDeletion": controller,
    }


def created_at(obj: Obj) -> str:
    """Returns the creation time as in the object; these texts have one format and sort by time."""
    return str(obj["metadata"].get("creationTimestamp") or "")


def newest(objects: Iterable[Obj]) -> Obj | None:
    """Returns the object that was created last."""
    return max(objects, key=created_at, default=None)


def is_terminating(obj: Obj) -> bool:
    """True if the object is being deleted: it exists only until its finalizers are removed."""
    return bool(obj["metadata"].get("deletionTimestamp"))


# --- kinds ------------------------------------------------------------------------------------------
# The built-in resource types of Kubernetes that we use.

NAMESPACE = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
NODE = Resource("", "v1", "Node", "nodes", namespaced=False)
POD = Resource("", "v1", "Pod", "pods")
SECRET = Resource("", "v1", "Secret", "secrets")
CONFIG_MAP = Resource("", "v1", "ConfigMap", "configmaps")
SERVICE = Resource("", "v1", "Service", "services")
SERVICE_ACCOUNT = Resource("", "v1", "ServiceAccount", "serviceaccounts")

DEPLOYMENT = Resource("apps", "v1", "Deployment", "deployments")
JOB = Resource("batch", "v1", "Job", "jobs")
PRIORITY_CLASS = Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
LEASE = Resource("coordination.k8s.io", "v1", "Lease", "leases")
EVENT = Resource("events.k8s.io", "v1", "Event", "events")
CUSTOM_RESOURCE_DEFINITION = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
TOKEN_REVIEW = Resource("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
SUBJECT_ACCESS_REVIEW = Resource(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEW = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
SELF_SUBJECT_RULES_REVIEW = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False
)
ENDPOINT_SLICE = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    namespaced=False,
)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)


# --- merge patches and JSON patches -----------------------------------------------------------------
# JSON merge patches (RFC 7396) and JSON patches (RFC 6902), computed from objects.  Pure.

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_LISTS: Final = frozenset({list, tuple})


def _is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """True for a JSON object.  The types of most values are known: a check for a Mapping is slow."""
    kind = type(value)
    return kind is dict or (not (kind in _SCALARS or kind in _LISTS) and isinstance(value, Mapping))


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the merge patch that turns `old` into `new`; None in `new` means an absent key."""
    patch: dict[str, Any] = {key: None for key in old if old[key] is not None and new.get(key) is None}
    for key, value in new.items():
        before = old.get(key)
        if value is None or value is before:  # most parts of a status are the cached objects themselves
            continue
        if _is_object(value) and _is_object(before):
            changes = merge_patch(before, value)
            if changes:
                patch[key] = changes
        elif value != before and (wanted := without_null(value)) != without_null(before):
            patch[key] = wanted
    return patch


def json_patch(target: Mapping[str, Any], patch: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the operations of a JSON patch with the effect of the merge patch; [] if nothing changes."""
    return list(_operations(target, patch, ""))


def _operations(target: Mapping[str, Any], patch: Mapping[str, Any], at: str) -> Iterator[dict[str, Any]]:
    for key, change in patch.items():
        path = f"{at}/{key.replace('~', '~0').replace('/', '~1')}"
        present = target.get(key)
        if change is None:
            if key in target:
                yield {"op": "remove", "path": path}
        elif _is_object(change) and _is_object(present):
            yield from _operations(present, change, path)
        else:
            value = without_null(change, in_lists=False)
            if key not in target or present != value:
                yield {"op": "replace" if key in target else "add", "path": path, "value": value}


def without_null(value: Any, *, in_lists: bool = True) -> Any:
    """Returns a copy without the keys whose value is None.

    `in_lists=False` keeps lists unchanged; this is how a merge patch applies to an absent value.
    """
    if _is_object(value):
        return {
            key: inner if type(inner) in _SCALARS else without_null(inner, in_lists=in_lists)
            for key, inner in value.items()
            if inner is not None
        }
    if in_lists and isinstance(value, list | tuple):
        return [without_null(inner) for inner in value]
    return value


# --- dotted paths, such as spec.taskRunTemplate.podTemplate ------------------------------------------


def read(obj: Mapping[str, Any], path: str) -> Any:
    """Returns the value at the path; None if it is absent."""
    value: Any = obj
    for name in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def nested(path: str, value: Any) -> dict[str, Any]:
    """Returns the object with only this value at the path, as a merge patch that writes it."""
    patch: Any = value
    for name in reversed(path.split(".")):
        patch = {name: patch}
    body: dict[str, Any] = patch
    return body


def joined(*bodies: Mapping[str, Any]) -> dict[str, Any]:
    """Returns one merge patch from several; of two values that are not both objects the later one wins."""
    result: dict[str, Any] = {}
    for body in bodies:
        for key, value in body.items():
            before = result.get(key)
            both = isinstance(before, Mapping) and isinstance(value, Mapping)
            result[key] = joined(before, value) if both else value  # type: ignore[arg-type]
    return result


def only(obj: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """Returns the parts of the object at these paths."""
    found = ((path, read(obj, path)) for path in paths)
    return joined(*(nested(path, value) for path, value in found if value is not None))
