"""Asks the API server what the caller may do, by SelfSubjectAccessReviews."""

from __future__ import annotations

from typing import Any, Protocol

from fournos.engine.kube.resource import SELF_SUBJECT_ACCESS_REVIEW, Obj, Resource


class Creator(Protocol):
    """The part of an Api that reviews need."""

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj: ...


def access_review(
    resource: Resource, verb: str, *, namespace: str = "", name: str = "", subresource: str = ""
) -> Obj:
    """Returns the review of one permission; `namespace` "" means all namespaces."""
    attributes: dict[str, Any] = {"group": resource.group, "resource": resource.plural, "verb": verb}
    more = {"namespace": namespace, "name": name, "subresource": subresource}
    return {
        "apiVersion": SELF_SUBJECT_ACCESS_REVIEW.api_version,
        "kind": SELF_SUBJECT_ACCESS_REVIEW.kind,
        "metadata": {},
        "spec": {"resourceAttributes": attributes | {name: text for name, text in more.items() if text}},
    }


async def may(
    api: Creator,
    resource: Resource,
    verb: str,
    *,
    namespace: str = "",
    name: str = "",
    subresource: str = "",
) -> bool:
    """True if the identity of this connection has the permission."""
    body = access_review(resource, verb, namespace=namespace, name=name, subresource=subresource)
    answer = await api.create(SELF_SUBJECT_ACCESS_REVIEW, body)
    return bool((answer.get("status") or {}).get("allowed"))
