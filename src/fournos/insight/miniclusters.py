"""MiniClusters: pods by rank, logs, sizes; whether a manifest is accepted, and what is made of it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fournos.engine.api.conditions import is_true
from fournos.engine.api.rules import Violation
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import JOB, POD, Obj, key_of, owner_uids, uid_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.podsets import queue_name
from fournos.insight.children import current_workload
from fournos.insight.errors import EndedError, FournosError, NoLogError, refusal
from fournos.insight.explanation import Explanation
from fournos.insight.facts import queue_facts
from fournos.insight.failure import LogSource
from fournos.insight.queue_reasons import Words, in_queue
from fournos.insight.source import Source, or_error
from fournos.insight.starting import advice as advice_for
from fournos.insight.starting import not_starting
from fournos.insight.values import created, name_of, one_line, status_of
from fournos.systems.miniclusters import broker, build, names, script
from fournos.systems.miniclusters.rules import check_manifest
from fournos.systems.miniclusters.settings import MiniClusterSettings
from fournos.systems.miniclusters.spec import cluster_of


def phase_of(minicluster: Obj) -> str:
    """The phase; "Waiting" if the operator has not reconciled the MiniCluster yet."""
    return str(status_of(minicluster).get("phase") or "Waiting")


def rank_of(pod: Obj) -> str:
    """The rank of the pod's broker; "" for the services pod."""
    return str((pod["metadata"].get("labels") or {}).get(names.COMPLETION_INDEX_LABEL) or "")


async def pods(source: Source, minicluster: Obj) -> list[Obj]:
    """Returns the pods of the MiniCluster by rank, the services pod last."""
    namespace, name = key_of(minicluster)
    selector = f"{names.MINICLUSTER_LABEL}={name}"
    found = (await source.list(POD, namespace=namespace, selector=selector)).items
    return sorted(found, key=lambda pod: (not rank_of(pod), int(rank_of(pod) or 0), created(pod)))


async def explained(source: Source, minicluster: Obj) -> tuple[Explanation, list[Obj], list[Obj]]:
    """Explains what the MiniCluster waits for or does; also returns its pods and its Workloads."""
    found, queue = await pods(source, minicluster), queue_name(minicluster)
    workloads: list[Obj] = []
    if queue:
        listed = (await source.list(WORKLOAD, namespace=key_of(minicluster).namespace)).items
        workloads = [one for one in listed if uid_of(minicluster) in owner_uids(one)]
    workload = current_workload(workloads)
    if queue and phase_of(minicluster) == "Waiting" and not (workload and is_true(workload, "Admitted")):
        facts = await queue_facts(source, minicluster, queue)
        return in_queue(minicluster, workload, facts, _WORDS), found, workloads
    message = one_line(status_of(minicluster).get("message"))
    verdict = f"{name_of(minicluster)} is {phase_of(minicluster)}" + (f": {message}" if message else ".")
    if phase_of(minicluster) != "Running":
        return Explanation(verdict), found, workloads
    job = await or_error(source.get(JOB, key_of(minicluster)))
    stuck = await not_starting(source, found, () if isinstance(job, KubeError) else (job,))
    helps = advice_for(stuck, key_of(minicluster).namespace)
    return Explanation(verdict, stuck, helps), found, workloads


_WORDS: Final = Words(
    unqueued=("see whether an operator runs: fournos run --enable miniclusters",),
    uncovered="add it to the ClusterQueue, or ask for something else: spec.containers[].resources",
    impossible="ask for less: spec.size pods count together",
)


def log_source(minicluster: Obj, candidates: Iterable[Obj], *, rank: int, container: str | None) -> LogSource:
    """The container of the newest pod of this rank; by default the one that runs Flux.  Raises NoLogError."""
    name = name_of(minicluster)
    of_rank = [pod for pod in candidates if rank_of(pod) == str(rank)]
    if not of_rank:
        raise NoLogError(
            f"{name} has no pod of rank {rank}: it is {phase_of(minicluster)}",
            fix=f"why: fournos explain minicluster/{name}",
        )
    newest = max(of_rank, key=created)
    return LogSource(key_of(newest), container or name, f"rank {rank}", started=True)


def scale_change(minicluster: Obj, size: int) -> dict[str, Any]:
    """Returns the merge patch that changes the number of pods.

    Raises EndedError for a finished MiniCluster, and FournosError for a size above its maximum.
    """
    name = name_of(minicluster)
    if phase_of(minicluster) == "Finished":
        raise EndedError(f"{name} has finished", fix="make a new one")
    if size < 1:
        raise FournosError(f"{name} cannot have {size} pods", fix="choose at least 1")
    largest = int(status_of(minicluster).get("maximumSize") or 0)
    if largest and size > largest:
        raise FournosError(
            f"{name} began with {largest} hosts, and its brokers know only these",
            fix=f"choose at most {largest}, or make a new one with a larger maxSize",
        )
    return {"spec": {"size": size}}


def accepted(minicluster: Mapping[str, Any], source: str) -> None:
    """Raises ManifestError with every reason for which the API server would refuse the manifest."""
    broken = check_manifest(minicluster)
    meta = minicluster.get("metadata")
    if not isinstance(meta, dict) or not meta.get("name"):
        broken = [Violation("metadata.name", "write a name", "schema"), *broken]
    if broken:
        raise refusal(source, broken, fix="correct these fields and try again")


_MADE_LATER: Final = "made by the operator"


def entrypoint_file(minicluster: Obj, key: str) -> str:
    """Returns one file of the entrypoint ConfigMap.  Raises FournosError if there is none of this name."""
    data = script.data(cluster_of(minicluster, MiniClusterSettings()))
    if key not in data:
        raise FournosError(f"there is no {key}", fix="name one of " + ", ".join(data))
    return data[key]


def objects_of(minicluster: Obj, *, certificate: bool) -> list[Obj | str]:
    """Returns the objects in the order in which they are made.

    `certificate`: with a new certificate, so that they can be applied; else with a text in its place.
    """
    settings, lead = MiniClusterSettings(), names.lead(name_of(minicluster))
    text = (
        broker.certificate(secrets.token_bytes(broker.KEY_BYTES), host=lead) if certificate else _MADE_LATER
    )
    return [
        build.certificate_secret(minicluster, settings, certificate=text),
        build.headless_service(minicluster, settings),
        *build.wanted(minicluster, settings),
    ]
