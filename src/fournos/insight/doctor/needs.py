"""The rights that the commands need, and the check of those that the caller has.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB, FOURNOS_SCHEDULE, PIPELINE_RUN, TASK_RUN
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.kinds import POD
from fournos.engine.kube.resource import Resource
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.insight.doctor.finding import DoctorFinding, Level, unreadable

AREA: Final = "Rights"


@dataclass(frozen=True, slots=True)
class Permission:
    """One permission of the caller; the namespace is "" for cluster-scoped kinds."""

    verb: str
    resource: Resource
    namespace: str
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class NeededRights:
    """The permissions on one kind that some commands need."""

    commands: str
    resource: Resource
    verbs: tuple[str, ...]
    subresource: str = ""
    required: bool = False
    """False if the commands show less without it, or if not every user needs them."""

    def rights(self, namespace: str, clusters: str) -> tuple[Permission, ...]:
        """`namespace` is that of the jobs, `clusters` that of the FournosClusters."""
        where = clusters if self.resource == FOURNOS_CLUSTER else namespace
        where = where if self.resource.namespaced else ""
        return tuple(Permission(verb, self.resource, where, self.subresource) for verb in self.verbs)

    @property
    def what(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else str(self.resource)


NEEDS: Final = (
    NeededRights("list, get, watch, wait", FOURNOS_JOB, ("get", "list", "watch"), required=True),
    NeededRights("submit, retry, matrix", FOURNOS_JOB, ("create",), required=True),
    NeededRights("stop", FOURNOS_JOB, ("patch",), required=True),
    NeededRights("delete", FOURNOS_JOB, ("delete",), required=True),
    NeededRights("logs", POD, ("get",), subresource="log", required=True),
    NeededRights("get, logs", POD, ("list",), required=True),
    NeededRights("get, watch", PIPELINE_RUN, ("list", "watch")),
    NeededRights("get, watch, logs", TASK_RUN, ("list", "watch")),
    NeededRights("explain, queue, top", WORKLOAD, ("list", "watch")),
    NeededRights("explain, queue", LOCAL_QUEUE, ("get", "list")),
    NeededRights("explain, queue", CLUSTER_QUEUE, ("get",)),
    NeededRights("explain", RESOURCE_FLAVOR, ("list",)),
    NeededRights("schedule list, get, preview", FOURNOS_SCHEDULE, ("get", "list", "watch")),
    NeededRights(
        "schedule create, suspend, trigger, delete", FOURNOS_SCHEDULE, ("create", "patch", "delete")
    ),
    NeededRights("cluster list, get, top", FOURNOS_CLUSTER, ("get", "list", "watch")),
    NeededRights("cluster lock, unlock, drain, discover", FOURNOS_CLUSTER, ("patch",)),
)


def check_rights(
    rights: Mapping[Permission, bool | KubeError], *, namespace: str, clusters: str
) -> list[DoctorFinding]:
    """Returns one finding for each need."""
    return [_check(need, need.rights(namespace, clusters), rights) for need in NEEDS]


def _check(
    need: NeededRights, permissions: tuple[Permission, ...], rights: Mapping[Permission, bool | KubeError]
) -> DoctorFinding:
    what = f"{', '.join(need.verbs)} {need.what}"
    for right in permissions:
        answer = rights.get(right, False)
        if isinstance(answer, KubeError):
            return unreadable(AREA, what, answer)
    lacking = [right for right in permissions if not rights.get(right)]
    if not lacking:
        return DoctorFinding(AREA, what, Level.OK)
    verbs = ", ".join(right.verb for right in lacking)
    where = f" in namespace {lacking[0].namespace}" if lacking[0].namespace else ""
    return DoctorFinding(
        AREA,
        what,
        Level.FAULT if need.required else Level.WARNING,
        f"you may not {verbs} {need.what}{where}: needed by {need.commands}",
        f"ask an administrator for a Role with {verbs} on {need.what}{where}",
    )
