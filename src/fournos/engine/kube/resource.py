"""The address of an object at an API server: its resource type and its key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias
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


def owner_reference(
    resource: Resource, owner: Obj, *, controller: bool = True, block_deletion: bool | None = None
) -> dict[str, Any]:
    """Returns the entry of `ownerReferences` for an object that belongs to `owner`, which is of this type.

    `block_deletion` is as `controller` by default.  Where OwnerReferencesPermissionEnforcement is enabled
    (OpenShift), it needs the right to update the finalizers of the owner.
    """
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": controller,
        "blockOwnerDeletion": controller if block_deletion is None else block_deletion,
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
