"""The facts that the checks need, and how they are read: each once, concurrently, with few requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from fournos import __version__
from fournos.engine.kube.errors import ForbiddenError, KubeError
from fournos.engine.kube.kinds import (
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    LEASE,
    MUTATING_WEBHOOKS,
    NAMESPACE,
    VALIDATING_WEBHOOKS,
)
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.queueing.kinds import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR
from fournos.insight.access import Creator, may
from fournos.insight.crds import KINDS
from fournos.insight.doctor.needs import NEEDS, Permission
from fournos.insight.environment import KUEUE_NAMESPACE
from fournos.insight.source import Source, or_error
from fournos.insight.values import spec_of
from fournos.systems.jobs import names

T = TypeVar("T")
Read: TypeAlias = T | KubeError
"""A KubeError stands in place of what could not be read."""

KUEUE_CONFIGURATION: Final = Key(KUEUE_NAMESPACE, "kueue-manager-config")
TEKTON_INFO: Final = Key("tekton-pipelines", "pipelines-info")
HISTORY: Final = "/apis/history.fournos.dev/v1/namespaces/{}/runs?limit=1"
"""The path of a read that the history answers from its store."""
MESSAGES: Final = "/apis/history.fournos.dev/v1/namespaces/{}/messages"
"""The path of how many messages about results reached their receivers in the last seven days."""
WORKLOAD_CRD: Final = Key("", "workloads.kueue.x-k8s.io")
KUEUE_ROLE: Final = "kueue-fournos-kinds"
SERVICE_LABEL: Final = "kubernetes.io/service-name"
GROUPS: Final = frozenset(
    {"fournos.dev", "workload.codeflare.dev", "flux-framework.org", "kueue.x-k8s.io", "tekton.dev"}
)
"""The API groups whose webhooks are examined."""


class DoctorServer(Source, Creator, Protocol):
    """The operations on an API server that the facts need."""

    async def raw_get(self, path: str) -> bytes: ...

    async def server_time(self) -> datetime | None: ...


@dataclass(frozen=True, slots=True)
class VaultHealth:
    """The answer of Vault's /v1/sys/health."""

    address: str
    status: int
    """The HTTP status; 0 without an answer."""


@dataclass(frozen=True, slots=True)
class ExaminedNamespaces:
    """Where the caller works."""

    namespace: str
    """The namespace of the jobs."""
    clusters: str
    """The namespace of the FournosClusters."""
    queue: str
    """The LocalQueue of jobs."""


@dataclass(frozen=True, slots=True)
class DoctorFacts:
    """Everything that the checks look at."""

    place: ExaminedNamespaces
    kubernetes: Read[str]
    """The version, such as v1.34.4."""
    groups: Read[Mapping[str, tuple[str, ...]]]
    """API group → served versions."""
    client: str = __version__
    before: datetime | None = None
    """The local clock before the API server's was read."""
    after: datetime | None = None
    """The local clock after it."""
    server_time: Read[datetime | None] = None
    deployments: Read[tuple[Obj, ...]] = ()
    tekton: Read[Obj] | None = None
    crds: Mapping[str, Read[Obj]] = field(default_factory=dict)
    namespace: Read[Obj] | None = None
    kueue: Read[Obj] | None = None
    """The ConfigMap of Kueue's Configuration."""
    kueue_role: Read[Obj] | None = None
    """The ClusterRoleBinding that lets Kueue read kinds of ours."""
    workload_crd: Read[Obj] | None = None
    """Kueue's CRD of Workloads, whose schema shows its release."""
    local_queues: Read[tuple[Obj, ...]] = ()
    cluster_queues: Mapping[str, Read[Obj]] = field(default_factory=dict)
    flavors: Read[tuple[Obj, ...]] = ()
    admission_checks: Read[tuple[Obj, ...]] = ()
    webhooks: Read[tuple[Obj, ...]] = ()
    endpoints: Mapping[Key, Read[tuple[Obj, ...]]] = field(default_factory=dict)
    """Service of a webhook → its EndpointSlices."""
    rights: Mapping[Permission, Read[bool]] = field(default_factory=dict)
    lease: Read[Obj] | None = None
    """The Lease of the operator that serves the namespace of the jobs."""
    history: Read[bytes] | None = None
    """The answer to a read of the history."""
    messages: Read[bytes] | None = None
    """The history's answer about its messages."""
    vault: VaultHealth | None = None


async def gather(
    server: DoctorServer,
    place: ExaminedNamespaces,
    *,
    now: Callable[[], datetime],
    vault: VaultHealth | None = None,
) -> DoctorFacts:
    """Reads the facts.  Raises KubeError if the API server does not answer at all."""
    kubernetes = json.loads(await server.raw_get("/version")).get("gitVersion") or "?"
    before = now()
    server_time = await or_error(server.server_time())
    after = now()
    local_queues = await _items(server, LOCAL_QUEUE, place.namespace)
    webhooks = await _webhooks(server)
    crds = [definition.name for definition, _ in KINDS]
    queues = sorted(
        {str(spec_of(local_queue).get("clusterQueue") or "") for local_queue in _known(local_queues)} - {""}
    )
    services = sorted({key for webhook in _known(webhooks) for key in services_of(webhook)})
    rights = [right for need in NEEDS for right in need.rights(place.namespace, place.clusters)]
    single = [
        (CONFIG_MAP, TEKTON_INFO),
        (CONFIG_MAP, KUEUE_CONFIGURATION),
        (CLUSTER_ROLE_BINDING, Key("", KUEUE_ROLE)),
        (NAMESPACE, Key("", place.namespace)),
        (CUSTOM_RESOURCE_DEFINITION, WORKLOAD_CRD),
        (LEASE, Key(place.namespace, names.LEASE)),
    ]
    singles = await _each(single, lambda reference: server.get(*reference))
    tekton, kueue, kueue_role, namespace, workload_crd, lease = singles.values()
    history = await or_error(server.raw_get(HISTORY.format(place.namespace)))
    messages = MESSAGES.format(place.namespace)
    return DoctorFacts(
        place,
        kubernetes,
        await _groups(server),
        before=before,
        after=after,
        server_time=server_time,
        deployments=await _deployments(server, place.namespace),
        tekton=tekton,
        crds=await _each(crds, lambda name: server.get(CUSTOM_RESOURCE_DEFINITION, Key("", name))),
        namespace=namespace,
        kueue=kueue,
        kueue_role=kueue_role,
        workload_crd=workload_crd,
        local_queues=local_queues,
        cluster_queues=await _each(queues, lambda name: server.get(CLUSTER_QUEUE, Key("", name))),
        flavors=await _items(server, RESOURCE_FLAVOR),
        admission_checks=await _items(server, ADMISSION_CHECK),
        webhooks=webhooks,
        endpoints=await _each(services, lambda key: _slices(server, key)),
        rights=await _each(rights, lambda right: _may(server, right)),
        lease=lease,
        history=history,
        messages=None if isinstance(history, KubeError) else await or_error(server.raw_get(messages)),
        vault=vault,
    )


def services_of(configuration: Obj) -> set[Key]:
    """The Services that a webhook configuration names."""
    found = [(one.get("clientConfig") or {}).get("service") for one in configuration.get("webhooks") or ()]
    return {Key(str(one.get("namespace")), str(one.get("name"))) for one in found if one}


async def _each(keys: Iterable[Any], call: Callable[[Any], Any]) -> dict[Any, Any]:
    asked = list(keys)
    return dict(zip(asked, await asyncio.gather(*(or_error(call(key)) for key in asked)), strict=True))


async def _items(server: DoctorServer, resource: Resource, namespace: str = "") -> Read[tuple[Obj, ...]]:
    found = await or_error(server.list(resource, namespace=namespace))
    return found if isinstance(found, KubeError) else tuple(found.items)


async def _slices(server: DoctorServer, key: Key) -> tuple[Obj, ...]:
    listing = await server.list(
        ENDPOINT_SLICE, namespace=key.namespace, selector=f"{SERVICE_LABEL}={key.name}"
    )
    return tuple(listing.items)


async def _deployments(server: DoctorServer, namespace: str) -> Read[tuple[Obj, ...]]:
    """Of all namespaces, or only of the jobs' namespace where RBAC forbids the former."""
    found = await _items(server, DEPLOYMENT)
    return await _items(server, DEPLOYMENT, namespace) if isinstance(found, ForbiddenError) else found


async def _groups(server: DoctorServer) -> Read[Mapping[str, tuple[str, ...]]]:
    body = await or_error(server.raw_get("/apis"))
    if isinstance(body, KubeError):
        return body
    return {
        str(group["name"]): tuple(str(one["version"]) for one in group.get("versions") or ())
        for group in json.loads(body).get("groups") or ()
    }


async def _webhooks(server: DoctorServer) -> Read[tuple[Obj, ...]]:
    """The webhook configurations for the groups in GROUPS."""
    lists = [await _items(server, resource) for resource in (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS)]
    if refused := next((one for one in lists if isinstance(one, KubeError)), None):
        return refused
    return tuple(one for found in lists for one in _known(found) if _groups_of(one) & GROUPS)


def _groups_of(configuration: Obj) -> set[str]:
    return {
        str(group)
        for webhook in configuration.get("webhooks") or ()
        for rule in webhook.get("rules") or ()
        for group in rule.get("apiGroups") or ()
    }


async def _may(server: DoctorServer, right: Permission) -> bool:
    return await may(
        server, right.resource, right.verb, namespace=right.namespace, subresource=right.subresource
    )


def _known(found: Read[tuple[Obj, ...]]) -> tuple[Obj, ...]:
    return () if isinstance(found, KubeError) else found
