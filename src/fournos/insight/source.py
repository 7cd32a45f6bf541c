"""The read-only interface through which insight reads objects."""

from __future__ import annotations

import os
from collections.abc import Awaitable
from typing import Any, Final, Protocol, TypeVar

from fournos.engine.kube.api import Listing as Listing
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import EVENT as EVENT
from fournos.engine.kube.resource import NAMESPACE as NAMESPACE
from fournos.engine.kube.resource import SELF_SUBJECT_ACCESS_REVIEW, Key, Obj, Resource

DEFAULT_QUEUE: Final = "fournos-queue"
"""The LocalQueue of jobs, unless the operator is configured otherwise."""


T = TypeVar("T")


class Source(Protocol):
    """The read methods of an Api, served by live requests or by informer caches.

    Both methods raise the errors of `fournos.engine.kube.errors`.
    """

    async def get(self, resource: Resource, key: Key) -> Obj:
        """Returns one object."""
        ...

    async def list(
        self, resource: Resource, *, namespace: str = "", selector: str = "", fields: str = ""
    ) -> Listing:
        """`namespace` "" means all namespaces; `fields` is a field selector."""
        ...


async def or_error(call: Awaitable[T]) -> T | KubeError:
    """Awaits the call; a KubeError stands in place of what could not be read."""
    try:
        return await call
    except KubeError as error:
        return error


KUEUE_NAMESPACE: Final = "kueue-system"


def owner() -> str:
    """The owner of the user's jobs; "" if it is not set."""
    return os.environ.get("FOURNOS_OWNER", "")


def local_queue() -> str:
    """The LocalQueue of jobs that have no Workload yet."""
    return os.environ.get("FOURNOS_KUEUE_LOCAL_QUEUE_NAME", DEFAULT_QUEUE)


def jobs_namespace() -> str:
    """The namespace of jobs; "" if it is not set."""
    return os.environ.get("FOURNOS_NAMESPACE", "")


def clusters_namespace() -> str:
    """The namespace of the FournosClusters."""
    return os.environ.get("HEARTH_NAMESPACE") or "hearth"


def kueue_namespace() -> str:
    """The namespace of Kueue and of the Secrets of its workers."""
    return os.environ.get("FOURNOS_MULTIKUEUE_KUEUE_NAMESPACE") or KUEUE_NAMESPACE


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
