"""The rights that the commands need, and the check of those that the caller has.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB, PIPELINE_RUN, TASK_RUN
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.kinds import POD
from fournos.engine.kube.resource import Resource
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.insight.doctor.finding import Finding, Level, unreadable

AREA: Final = "Rights"


@dataclass(frozen=True, slots=True)
class Right:
    """One permission of the caller; the namespace is "" for cluster-scoped kinds."""

    verb: str
    resource: Resource
    namespace: str
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """The permissions on one kind that some commands need."""

    commands: str
    resource: Resource
    verbs: tuple[str, ...]
    subresource: str = ""
    required: bool = False
    """False if the commands show less without it, or if not every user needs them."""

    def rights(self, namespace: str, clusters: str) -> tuple[Right, ...]:
        """`namespace` is that of the jobs, `clusters` that of the FournosClusters."""
        where = clusters if self.resource == FOURNOS_CLUSTER else namespace
        where = where if self.resource.namespaced else ""
        return tuple(Right(verb, self.resource, where, self.subresource) for verb in self.verbs)

    @property
    def what(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else str(self.resource)


NEEDS: Final = (
    Need("list, get, watch, wait", FOURNOS_JOB, ("get", "list", "watch"), required=True),
    Need("submit, retry, matrix", FOURNOS_JOB, ("create",), required=True),
    Need("stop", FOURNOS_JOB, ("patch",), required=True),
    Need("delete", FOURNOS_JOB, ("delete",), required=True),
    Need("logs", POD, ("get",), subresource="log", required=True),
    Need("get, logs", POD, ("list",), required=True),
    Need("get, watch", PIPELINE_RUN, ("list", "watch")),
    Need("get, watch, logs", TASK_RUN, ("list", "watch")),
    Need("explain, queue, top", WORKLOAD, ("list", "watch")),
    Need("explain, queue", LOCAL_QUEUE, ("get", "list")),
    Need("explain, queue", CLUSTER_QUEUE, ("get",)),
    Need("explain", RESOURCE_FLAVOR, ("list",)),
    Need("cluster list, get, top", FOURNOS_CLUSTER, ("get", "list", "watch")),
    Need("cluster lock, unlock, drain, discover", FOURNOS_CLUSTER, ("patch",)),
)


def check_rights(rights: Mapping[Right, bool | KubeError], *, namespace: str, clusters: str) -> list[Finding]:
    """Returns one finding for each need."""
    return [_check(need, need.rights(namespace, clusters), rights) for need in NEEDS]


def _check(need: Need, wanted: tuple[Right, ...], rights: Mapping[Right, bool | KubeError]) -> Finding:
    what = f"{', '.join(need.verbs)} {need.what}"
    for right in wanted:
        answer = rights.get(right, False)
        if isinstance(answer, KubeError):
            return unreadable(AREA, what, answer)
    lacking = [right for right in wanted if not rights.get(right)]
    if not lacking:
        return Finding(AREA, what, Level.OK)
    verbs = ", ".join(right.verb for right in lacking)
    where = f" in namespace {lacking[0].namespace}" if lacking[0].namespace else ""
    return Finding(
        AREA,
        what,
        Level.FAULT if need.required else Level.WARNING,
        f"you may not {verbs} {need.what}{where}: needed by {need.commands}",
        f"ask an administrator for a Role with {verbs} on {need.what}{where}",
    )
