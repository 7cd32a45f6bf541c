"""The looks of `fournos doctor` at what jobs pass: namespaces, queues, rights and webhooks; and findings."""

from __future__ import annotations

import asyncio
import base64
import warnings
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Set
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Protocol

from cryptography import x509
from cryptography.utils import CryptographyDeprecationWarning

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB, FOURNOS_SCHEDULE, PIPELINE_RUN, TASK_RUN
from fournos.engine.api.conditions import condition
from fournos.engine.kube.errors import ForbiddenError, KubeError, NotFoundError
from fournos.engine.kube.formats import YamlError, load_all
from fournos.engine.kube.resource import (
    CONFIG_MAP,
    ENDPOINT_SLICE,
    MUTATING_WEBHOOKS,
    NAMESPACE,
    POD,
    VALIDATING_WEBHOOKS,
    Key,
    Obj,
    Resource,
)
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.engine.queueing.observe import covered
from fournos.insight.source import KUEUE_NAMESPACE, Creator, Source, may, or_error
from fournos.insight.values import count, name_of, one_line, short, spec_of
from fournos.systems.jobs import names


class Level(StrEnum):
    OK = "ok"
    UNKNOWN = "unknown"
    """It could not be read.  It may be as it must be."""
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """What was found about one thing.  A warning or a fault has a fix."""

    what: str
    level: Level
    text: str = ""
    fix: str = ""
    area: str = ""
    """Versions, CRDs, Kueue, Queues, Rights, Webhooks, Operator, History or Workers."""

    def as_data(self) -> dict[str, Any]:
        return {"area": self.area, **asdict(self), "level": self.level.value}


def ok(what: str, text: str = "") -> DoctorFinding:
    return DoctorFinding(what, Level.OK, text)


def fault(what: str, text: str, fix: str) -> DoctorFinding:
    return DoctorFinding(what, Level.FAULT, text, fix)


def warning(what: str, text: str, fix: str) -> DoctorFinding:
    return DoctorFinding(what, Level.WARNING, text, fix)


def unreadable(what: str, error: KubeError) -> DoctorFinding:
    text = "you may not read it" if isinstance(error, ForbiddenError) else error.message
    return DoctorFinding(what, Level.UNKNOWN, text)


Findings = AsyncIterator[DoctorFinding]


class DoctorServer(Source, Creator, Protocol):
    """The operations on an API server that the looks need."""

    async def raw_get(self, path: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class ExaminedNamespaces:
    """Where the caller works."""

    namespace: str
    """The namespace of the jobs."""
    clusters: str
    """The namespace of the FournosClusters."""
    queue: str
    """The LocalQueue of jobs."""


def faults(findings: Iterable[DoctorFinding]) -> int:
    return sum(finding.level is Level.FAULT for finding in findings)


# --- namespaces that Kueue leaves out --------------------------------------------------------------------

KUEUE_CONFIGURATION: Final = Key(KUEUE_NAMESPACE, "kueue-manager-config")
_FILE: Final = "controller_manager_config.yaml"
_NEVER_MANAGED: Final = frozenset({"kube-system", KUEUE_CONFIGURATION.namespace})
"""Kueue 0.18 and newer leave them out whatever the selector is; before, most kinds did."""
_EDIT: Final = (
    f"kubectl edit configmap {KUEUE_CONFIGURATION.name} -n {KUEUE_CONFIGURATION.namespace}, "
    "then restart its Deployment kueue-controller-manager"
)
_NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""The label that the API server sets on each namespace."""


async def check_left_out(server: DoctorServer, place: ExaminedNamespaces) -> Findings:
    """Looks whether Kueue's own integrations ignore the namespace, or hold back what names no queue in it."""
    what = f"namespace {place.namespace}"
    if place.namespace in _NEVER_MANAGED:
        text = "Kueue leaves it out: AppWrappers and Jobs that name a queue run there without quota"
        yield fault(what, text, "use another namespace for jobs (FOURNOS_NAMESPACE)")
        return
    try:
        config_map = await server.get(CONFIG_MAP, KUEUE_CONFIGURATION)
        document = next(iter(load_all(str((config_map.get("data") or {}).get(_FILE) or ""))), None) or {}
        without_queue = document.get("manageJobsWithoutQueueName")
        managed = document.get("managedJobsNamespaceSelector") or {}
    except NotFoundError:
        text = f"there is no ConfigMap {KUEUE_CONFIGURATION}; Kueue may be configured elsewhere"
        yield DoctorFinding("configuration", Level.UNKNOWN, text)
        return
    except (YamlError, AttributeError) as error:
        yield fault("configuration", f"{_FILE}: {error}", f"correct it: {_EDIT}")
        return
    selects = selected(managed, await _labels(server, place) or {_NAME_LABEL: place.namespace})
    if selects and without_queue:
        text = "Kueue holds back the resolve Jobs and pods of every FournosJob (manageJobsWithoutQueueName)"
        yield warning(what, text, f"exclude {place.namespace} in managedJobsNamespaceSelector: {_EDIT}")
    elif not selects and not without_queue:
        text = "Kueue leaves out its AppWrappers and Jobs, also those that name a queue: without quota"
        yield warning(what, text, f"select {place.namespace} in managedJobsNamespaceSelector: {_EDIT}")
    else:
        yield ok(what, f"as ConfigMap {KUEUE_CONFIGURATION} says")


async def _labels(server: DoctorServer, place: ExaminedNamespaces) -> Mapping[str, str] | None:
    """The labels of the namespace of the jobs; None if they may not be read."""
    found = await or_error(server.get(NAMESPACE, Key("", place.namespace)))
    if isinstance(found, KubeError):
        return None
    return {_NAME_LABEL: place.namespace, **(found["metadata"].get("labels") or {})}


def selected(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """True if a LabelSelector selects an object with these labels; the empty one selects all."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions") or ())


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(str(expression.get("key"))), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None


# --- queues ----------------------------------------------------------------------------------------------

_CONFIG: Final = "config/kueue-config.yaml"


async def check_queues(server: DoctorServer, place: ExaminedNamespaces) -> Findings:
    """Looks at the queues that lead from the namespace of the jobs to clusters."""
    local_queues = (await server.list(LOCAL_QUEUE, namespace=place.namespace)).items
    if place.queue not in map(name_of, local_queues):
        text = f"namespace {place.namespace} has no such queue, and jobs without one of their own wait for it"
        fix = "make it, as in manifests/deployment.yaml, or name another: FOURNOS_KUEUE_LOCAL_QUEUE_NAME"
        yield fault(f"LocalQueue {place.queue}", text, fix)
    leads_to = {name_of(queue): str(spec_of(queue).get("clusterQueue") or "") for queue in local_queues}
    for queue in local_queues:
        yield _queue("LocalQueue", queue, f"leads to ClusterQueue {leads_to[name_of(queue)]}")
    flavors, labels = await or_error(server.list(RESOURCE_FLAVOR)), await _labels(server, place)
    for name in sorted({*leads_to.values()} - {""}):
        what = f"ClusterQueue {name}"
        cluster_queue = await or_error(server.get(CLUSTER_QUEUE, Key("", name)))
        if isinstance(cluster_queue, NotFoundError):
            yield fault(what, "it does not exist", f"kubectl apply -f {_CONFIG}")
        elif isinstance(cluster_queue, KubeError):
            yield unreadable(what, cluster_queue)
        else:
            existing = None if isinstance(flavors, KubeError) else {*map(name_of, flavors.items)}
            for finding in _cluster_queue(what, cluster_queue, existing, labels, place.namespace):
                yield finding


def _cluster_queue(
    what: str,
    queue: Obj,
    existing: Set[str] | None,
    labels: Mapping[str, str] | None,
    namespace: str,
) -> Iterator[DoctorFinding]:
    """`existing` are the ResourceFlavors, `labels` those of the namespace; None for what may not be read."""
    groups = spec_of(queue).get("resourceGroups") or ()
    flavors = list(dict.fromkeys(str(f["name"]) for group in groups for f in group.get("flavors") or ()))
    yield _queue("ClusterQueue", queue, count(len(flavors), "flavor"))
    if names.SLOT_RESOURCE not in covered(queue):
        text = f"it does not cover {names.SLOT_RESOURCE}: no FournosJob can be admitted"
        yield fault(what, text, f"add {names.SLOT_RESOURCE} to its coveredResources, as in {_CONFIG}")
    selector = spec_of(queue).get("namespaceSelector")
    if labels is not None and (selector is None or not selected(selector, labels)):
        access = (selector or {}).get("matchLabels") or {"fournos.dev/queue-access": "true"}
        pairs = " ".join(f"{label}={value}" for label, value in access.items())
        text = f"its namespaceSelector does not select namespace {namespace}"
        yield fault(what, text, f"kubectl label ns/{namespace} {pairs}")
    for flavor in flavors:
        if existing is not None and flavor not in existing:
            fix = f"make the ResourceFlavor, or take {flavor} out of the ClusterQueue"
            yield fault(what, f"ResourceFlavor {flavor} does not exist", fix)


def _queue(kind: str, queue: Obj, text: str) -> DoctorFinding:
    what = f"{kind} {name_of(queue)}"
    policy = spec_of(queue).get("stopPolicy") or "None"
    if policy != "None":
        fix = f"set its stopPolicy to None: kubectl edit {kind.lower()} {name_of(queue)}"
        return fault(what, f"it is stopped (stopPolicy {policy})", fix)
    active = condition(queue, "Active") or {}
    if active.get("status") == "True":
        return ok(what, f"active, {text}")
    if not active:
        fix = f"see whether Kueue runs: kubectl get pods -n {KUEUE_NAMESPACE}"
        return warning(what, "Kueue has not looked at it", fix)
    why = f"{active.get('reason')}: {one_line(active.get('message'))}"
    return fault(what, f"not active: {why}", "make what the message names")


# --- rights ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NeededRights:
    """The permissions on one kind that some commands need."""

    commands: str
    resource: Resource
    verbs: tuple[str, ...]
    subresource: str = ""
    required: bool = False
    """False if the commands show less without it, or if not every user needs them."""


NEEDS: Final = (
    NeededRights("list, get, watch, wait", FOURNOS_JOB, ("get", "list", "watch"), required=True),
    NeededRights("submit, retry, matrix", FOURNOS_JOB, ("create",), required=True),
    NeededRights("stop", FOURNOS_JOB, ("patch",), required=True),
    NeededRights("delete", FOURNOS_JOB, ("delete",), required=True),
    NeededRights("logs", POD, ("get",), subresource="log", required=True),
    NeededRights("get, logs", POD, ("list",), required=True),
    NeededRights("get, watch", PIPELINE_RUN, ("list", "watch")),
    NeededRights("get, watch, logs", TASK_RUN, ("list", "watch")),
    NeededRights("explain, queue", WORKLOAD, ("list", "watch")),
    NeededRights("explain, queue", LOCAL_QUEUE, ("get", "list")),
    NeededRights("explain, queue", CLUSTER_QUEUE, ("get",)),
    NeededRights("explain", RESOURCE_FLAVOR, ("list",)),
    NeededRights("schedule list, get", FOURNOS_SCHEDULE, ("get", "list", "watch")),
    NeededRights(
        "schedule create, suspend, trigger, delete", FOURNOS_SCHEDULE, ("create", "patch", "delete")
    ),
    NeededRights("cluster list, get", FOURNOS_CLUSTER, ("get", "list", "watch")),
    NeededRights("cluster lock, unlock, drain, discover", FOURNOS_CLUSTER, ("patch",)),
)


async def check_rights(server: DoctorServer, place: ExaminedNamespaces) -> Findings:
    """Asks for the rights of the caller: one finding for each need."""
    for finding in await asyncio.gather(*(_right(server, place, need) for need in NEEDS)):
        yield finding


async def _right(server: DoctorServer, place: ExaminedNamespaces, need: NeededRights) -> DoctorFinding:
    kind = f"{need.resource}/{need.subresource}" if need.subresource else str(need.resource)
    what = f"{', '.join(need.verbs)} {kind}"
    namespace = place.clusters if need.resource == FOURNOS_CLUSTER else place.namespace
    namespace = namespace if need.resource.namespaced else ""
    lacking = []
    try:
        for verb in need.verbs:
            if not await may(server, need.resource, verb, namespace=namespace, subresource=need.subresource):
                lacking.append(verb)
    except KubeError as error:
        return unreadable(what, error)
    if not lacking:
        return ok(what)
    where = f" in namespace {namespace}" if namespace else ""
    return DoctorFinding(
        what,
        Level.FAULT if need.required else Level.WARNING,
        f"you may not {', '.join(lacking)} {kind}{where}: needed by {need.commands}",
        f"ask an administrator for a Role with {', '.join(lacking)} on {kind}{where}",
    )


# --- webhooks --------------------------------------------------------------------------------------------

_GROUPS: Final = frozenset(
    {"fournos.dev", "workload.codeflare.dev", "flux-framework.org", "kueue.x-k8s.io", "tekton.dev"}
)
"""The API groups whose webhooks are examined."""


async def check_webhooks(server: DoctorServer, now: datetime) -> Findings:
    """Looks at each server of webhooks: whether it answers, and until when its authority is trusted."""
    for resource in (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS):
        for configuration in (await server.list(resource)).items:
            for webhook in _by_server(configuration):
                yield await _webhook(server, name_of(configuration), webhook, now)


def _by_server(configuration: Obj) -> Iterable[Mapping[str, Any]]:
    """Returns one of the examined webhooks of each server, a strict one if there is one."""
    servers: dict[str, Mapping[str, Any]] = {}
    for webhook in sorted(configuration.get("webhooks") or (), key=_is_strict):
        rules = webhook.get("rules") or ()
        if any(group in _GROUPS for rule in rules for group in rule.get("apiGroups") or ()):
            client = webhook.get("clientConfig") or {}
            service = client.get("service") or {}
            servers[f"{service.get('namespace')}/{service.get('name')} {client.get('url')}"] = webhook
    return servers.values()


def _is_strict(webhook: Mapping[str, Any]) -> bool:
    return bool(webhook.get("failurePolicy", "Fail") == "Fail")


async def _webhook(
    server: DoctorServer, what: str, webhook: Mapping[str, Any], now: datetime
) -> DoctorFinding:
    client = webhook.get("clientConfig") or {}
    service, bundle = client.get("service") or {}, str(client.get("caBundle") or "")
    if not service:
        return ok(what, f"at {client.get('url')}")
    where = Key(str(service.get("namespace")), str(service.get("name")))
    strict = _is_strict(webhook)
    level = Level.FAULT if strict else Level.WARNING
    if not await _answers(server, where):
        effect = "what it checks cannot be created" if strict else "it checks nothing"
        fix = f"see whether its pods run: kubectl get pods -n {where.namespace}"
        return DoctorFinding(what, level, f"Service {where} has no ready endpoint: {effect}", fix)
    try:
        end = _end(bundle)
    except ValueError:
        fix = f"see why its operator writes none: logs of {where}"
        return DoctorFinding(what, level, "its caBundle has no certificate that can be read", fix)
    if end <= now:
        fix = f"restart the server of these webhooks, or renew its certificate: {where}"
        return DoctorFinding(what, level, f"its authority ended {short(now - end)} ago", fix)
    return ok(what, f"at {where}, trusted until {end:%Y-%m-%d}")


async def _answers(server: DoctorServer, service: Key) -> bool:
    """False if the Service has no ready endpoint; True also where that cannot be read."""
    selector = f"kubernetes.io/service-name={service.name}"
    slices = await or_error(server.list(ENDPOINT_SLICE, namespace=service.namespace, selector=selector))
    return isinstance(slices, KubeError) or any(
        (endpoint.get("conditions") or {}).get("ready") is not False
        for one in slices.items
        for endpoint in one.get("endpoints") or ()
    )


def _end(bundle: str) -> datetime:
    """Of the authority that lasts longest.  Raises ValueError if none can be read."""
    with warnings.catch_warnings():
        # Authorities that others made, such as one with the serial number 0, are not the reader's to mend.
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        found = x509.load_pem_x509_certificates(base64.b64decode(bundle, validate=True))
    return max(one.not_valid_after_utc for one in found)
