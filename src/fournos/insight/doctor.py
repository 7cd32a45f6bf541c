"""What keeps jobs from running: eight looks at a cluster and at the caller's rights, each with the fix.

A look reads what it judges.  What may not be read is unknown, and no fault.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from fournos import __version__
from fournos.api import appwrapper, fournoscluster, fournosjob, fournosschedule, minicluster
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.crd import crd
from fournos.engine.api.values import parse_time
from fournos.engine.kube.errors import ForbiddenError, KubeError, NoSuchResourceError, NotFoundError
from fournos.engine.kube.resource import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    LEASE,
    Key,
    Obj,
    key_of,
)
from fournos.engine.queueing.workload import KUEUE
from fournos.engine.runtime.part import (
    APPWRAPPER,
    FOURNOS,
    MIN_KUBERNETES,
    MINICLUSTER,
    TEKTON,
    RequiredApi,
)
from fournos.insight.doctor_access import (
    DoctorFinding,
    DoctorServer,
    ExaminedNamespaces,
    Findings,
    Level,
    check_left_out,
    check_queues,
    check_rights,
    check_webhooks,
    unreadable,
)
from fournos.insight.source import or_error
from fournos.insight.values import count, is_terminal, moment, name_of, short, spec_of, status_of
from fournos.systems.appwrappers.rules import RULES as APPWRAPPER_RULES
from fournos.systems.clusters.rules import RULES as CLUSTER_RULES
from fournos.systems.jobs import names
from fournos.systems.jobs.rules import RULES as JOB_RULES
from fournos.systems.miniclusters.rules import RULES as MINICLUSTER_RULES
from fournos.systems.schedules.rules import RULES as SCHEDULE_RULES

KINDS: Final = (
    (fournosjob.DEFINITION, JOB_RULES),
    (fournosschedule.DEFINITION, SCHEDULE_RULES),
    (fournoscluster.DEFINITION, CLUSTER_RULES),
    (appwrapper.DEFINITION, APPWRAPPER_RULES),
    (minicluster.DEFINITION, MINICLUSTER_RULES),
)
"""The CRDs of this version: the same as the parts declare, without their controllers."""


async def examine(server: DoctorServer, place: ExaminedNamespaces, now: datetime) -> list[DoctorFinding]:
    """Returns the findings in the order in which faults are best mended.

    Raises KubeError if the API server does not answer at all.
    """
    kubernetes = str(json.loads(await server.raw_get("/version")).get("gitVersion") or "?")
    looks = (
        _findings("Versions", "APIs", check_versions(server, place, kubernetes)),
        _findings("CRDs", "CRDs", check_crds(server)),
        _findings("Kueue", "configuration", check_left_out(server, place)),
        _findings("Queues", "LocalQueues", check_queues(server, place)),
        _findings("Rights", "rights", check_rights(server, place)),
        _findings("Webhooks", "configurations", check_webhooks(server, now)),
        _findings("Operator", f"jobs in {place.namespace}", check_operator(server, place, now)),
        _findings("History", "API", check_history(server, place, now)),
    )
    return [finding for findings in await asyncio.gather(*looks) for finding in findings]


async def _findings(area: str, what: str, look: Findings) -> list[DoctorFinding]:
    """Returns what a look finds; what it could not read, for `what` or raised, is unknown."""
    findings = []
    try:
        async for finding in look:
            findings.append(finding)
    except KubeError as error:
        findings.append(unreadable(area, what, error))
    return findings


# --- versions --------------------------------------------------------------------------------------------

_IMAGES: Final = ("fournos", "hearth")
_RELEASE: Final = re.compile(r"v?\d+\.\d+\.\d+")
_VERSION_LABEL: Final = "app.kubernetes.io/version"
"""The label that Kueue's Helm chart sets on its Deployment."""
_TEKTON_INFO: Final = Key("tekton-pipelines", "pipelines-info")
_APIS: Final = (FOURNOS, APPWRAPPER, MINICLUSTER, KUEUE, TEKTON)
_REQUIRED: Final = (FOURNOS, KUEUE, TEKTON)


async def check_versions(server: DoctorServer, place: ExaminedNamespaces, kubernetes: str) -> Findings:
    """Looks at this client, the API server, the operators, and the APIs that jobs need."""
    yield DoctorFinding("Versions", "client", Level.OK, f"fournos {__version__}")
    found = re.match(r"v(\d+)\.(\d+)", kubernetes)
    if found and (int(found[1]), int(found[2])) < MIN_KUBERNETES:
        fix = f"upgrade Kubernetes to {'.'.join(map(str, MIN_KUBERNETES))} or newer"
        yield DoctorFinding("Versions", "Kubernetes", Level.FAULT, f"{kubernetes} is too old", fix)
    else:
        yield DoctorFinding("Versions", "Kubernetes", Level.OK, kubernetes)
    listing = await or_error(server.list(DEPLOYMENT))
    if isinstance(listing, ForbiddenError):
        listing = await or_error(server.list(DEPLOYMENT, namespace=place.namespace))
    deployments = [] if isinstance(listing, KubeError) else listing.items
    ours = [one for one in deployments if _image(one)[0] in _IMAGES]
    if isinstance(listing, KubeError):
        yield unreadable("Versions", "operator", listing)
    elif not ours:
        text = "no Deployment of it in the namespaces that you may read"
        yield DoctorFinding("Versions", "operator", Level.UNKNOWN, text)
    for deployment in ours:
        yield _operator_version(deployment)
    groups = {
        str(group["name"]): [str(version["version"]) for version in group.get("versions") or ()]
        for group in json.loads(await server.raw_get("/apis")).get("groups") or ()
    }
    tekton = await or_error(server.get(CONFIG_MAP, _TEKTON_INFO))
    releases = {KUEUE: _kueue_release(deployments)}
    if not isinstance(tekton, KubeError):
        releases[TEKTON] = str((tekton.get("data") or {}).get("version") or "")
    for api in _APIS:
        yield _api_version(api, groups.get(api.group), releases.get(api, ""))


def _operator_version(deployment: Obj) -> DoctorFinding:
    what, (_, tag) = f"operator {key_of(deployment)}", _image(deployment)
    replicas = int(spec_of(deployment).get("replicas", 1))
    ready = int(status_of(deployment).get("readyReplicas") or 0)
    if replicas and not ready:
        fix = f"see why: kubectl describe deployment {name_of(deployment)} -n {key_of(deployment).namespace}"
        text = f"{tag}: none of its {replicas} replicas is ready"
        return DoctorFinding("Versions", what, Level.FAULT, text, fix)
    if _RELEASE.fullmatch(tag) and tag.removeprefix("v") != __version__:
        fix = f"install the client of that version, or upgrade the operator to {__version__}"
        return DoctorFinding("Versions", what, Level.WARNING, f"{tag}, and this client is {__version__}", fix)
    return DoctorFinding("Versions", what, Level.OK, f"{tag}, {ready} of {replicas} ready")


def _image(deployment: Obj) -> tuple[str, str]:
    """The last part of the repository's name and the tag of the first container's image."""
    containers = ((spec_of(deployment).get("template") or {}).get("spec") or {}).get("containers") or ()
    image = str(containers[0].get("image") or "") if containers else ""
    name, _, tag = image.rpartition("/")[2].partition("@")[0].partition(":")
    return name, tag or "latest"


def _kueue_release(deployments: Iterable[Obj]) -> str:
    """The release of Kueue by the tag of its image, else by the label of its chart; "" if it is unknown."""
    for manager in deployments:
        if name_of(manager) == "kueue-controller-manager":
            tag, labels = _image(manager)[1], manager["metadata"].get("labels") or {}
            return tag if _RELEASE.match(tag) else str(labels.get(_VERSION_LABEL) or tag)
    return ""


def _api_version(api: RequiredApi, served: list[str] | None, release: str) -> DoctorFinding:
    if served is None and api not in _REQUIRED:
        return DoctorFinding("Versions", api.name, Level.OK, "not installed")
    if served is None:
        fix = api.fix if api.ours else f"ask an administrator to install {api.name}"
        return DoctorFinding("Versions", api.name, Level.FAULT, f"{api.group} is not served", fix)
    if api.version not in served:
        text = f"{api.group} has {', '.join(served)}"
        return DoctorFinding("Versions", api.name, Level.FAULT, text, api.fix)
    text = f"{release}, {api.group}/{api.version}".removeprefix(", ")
    return DoctorFinding("Versions", api.name, Level.OK, text)


# --- CRDs ------------------------------------------------------------------------------------------------


async def check_crds(server: DoctorServer) -> Findings:
    """Compares our CRDs with those of this client's version."""
    for name, expected in _expected().items():
        api = next(api for api in _APIS if api.group == spec_of(expected)["group"])
        installed = await or_error(server.get(CUSTOM_RESOURCE_DEFINITION, Key("", name)))
        if isinstance(installed, NotFoundError):
            if api in _REQUIRED:
                yield DoctorFinding("CRDs", name, Level.FAULT, "it is not installed", api.fix)
        elif isinstance(installed, KubeError):
            yield unreadable("CRDs", name, installed)
        elif not is_true(installed, "Established"):
            fix = f"see why: kubectl describe crd {name}"
            yield DoctorFinding("CRDs", name, Level.FAULT, "the API server has not accepted it", fix)
        elif differing := schema_differences(expected, installed):
            text = f"it is of another version: {', '.join(differing)}"
            yield DoctorFinding("CRDs", name, Level.WARNING, text, api.fix)
        else:
            yield DoctorFinding("CRDs", name, Level.OK, "of this version")


@cache
def _expected() -> dict[str, Mapping[str, Any]]:
    return {definition.name: crd(definition, rules=rules) for definition, rules in KINDS}


def schema_differences(expected: Mapping[str, Any], installed: Obj, *, most: int = 3) -> list[str]:
    """Returns the paths of the fields and rules in which the schemas differ, at most `most` of them."""
    mine, theirs = (dict(_fields(_schema(one), "")) for one in (expected, installed))
    lines = [f"{path} is missing" for path in mine if path not in theirs]
    lines += [f"{path} is unknown to this client" for path in theirs if path not in mine]
    lines += [
        f"the rules of {path or 'the kind'} differ"
        for path in mine
        if theirs.get(path, mine[path]) != mine[path]
    ]
    rest = len(lines) - most
    return [*lines[:most], f"{rest} more"] if rest > 0 else lines


def _schema(document: Mapping[str, Any]) -> Mapping[str, Any]:
    version: Mapping[str, Any] = next(iter(spec_of(document).get("versions") or ()), {})
    schema: Mapping[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return schema


def _fields(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Yields each field's path and the CEL rules on it."""
    yield path, frozenset(str(rule.get("rule")) for rule in schema.get("x-kubernetes-validations") or ())
    for name, inner in (schema.get("properties") or {}).items():
        yield from _fields(inner, f"{path}.{name}".removeprefix("."))
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(inner := schema.get(key), Mapping):
            yield from _fields(inner, f"{path}{mark}")


# --- the operator and the history ------------------------------------------------------------------------

_LATE: Final = timedelta(minutes=1)
"""Several times what a Lease lasts: another replica would have taken it over."""
_RECORDED_WITHIN: Final = timedelta(minutes=30)
"""The history waits for a job's logs before it says that it has recorded its end; this is much longer."""


async def check_operator(server: DoctorServer, place: ExaminedNamespaces, now: datetime) -> Findings:
    """The Lease `fournos` lies in the namespace of the jobs, wherever the operator is deployed."""
    what = f"jobs in {place.namespace}"
    fix = f"start it: kubectl -n {place.namespace} get pods, or fournos run -n {place.namespace}"
    try:
        spec = spec_of(await server.get(LEASE, Key(place.namespace, names.LEASE)))
    except NotFoundError:
        text = "no operator holds a Lease here: nothing is processed"
        yield DoctorFinding("Operator", what, Level.FAULT, text, fix)
        return
    holder, renewed = str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or "")
    if not holder or not renewed:
        yield DoctorFinding("Operator", what, Level.FAULT, "no operator serves it now", fix)
    elif (ago := now - parse_time(renewed)) > _LATE:
        text = f"{holder} served it until {short(ago)} ago, and no operator has since"
        yield DoctorFinding("Operator", what, Level.FAULT, text, fix)
    else:
        yield DoctorFinding("Operator", what, Level.OK, f"{holder} serves it")


async def check_history(server: DoctorServer, place: ExaminedNamespaces, now: datetime) -> Findings:
    """Looks whether the history answers from its store, and records the ends of jobs."""
    fix = "see why: kubectl describe apiservice v1.history.fournos.dev, and the log of its Service's pods"
    try:
        await server.raw_get(f"/apis/history.fournos.dev/v1/namespaces/{place.namespace}/runs?limit=1")
    except NoSuchResourceError:
        yield DoctorFinding("History", "API", Level.OK, "not installed")
        return
    except ForbiddenError:
        raise
    except KubeError as error:
        yield DoctorFinding("History", "API", Level.FAULT, error.message, fix)
        return
    yield DoctorFinding("History", "API", Level.OK, "it answers, and so does its store")
    late = [
        job
        for job in (await server.list(FOURNOS_JOB, namespace=place.namespace)).items
        if is_terminal(job)
        and condition(job, names.ARCHIVED)  # an operator without a history sets none
        and not status_of(job).get("archivedAt")
        and (end := moment((status_of(job).get("phaseTimes") or {}).get("finished")))
        and now - end > _RECORDED_WITHIN
    ]
    if late:
        text = f"{count(len(late), 'job')} ended long ago and not recorded, such as {name_of(late[0])}"
        fix = "see why: the log of the recorder, kubectl logs -n fournos-history deploy/fournos-history"
        yield DoctorFinding("History", "records", Level.FAULT, text, fix)
    else:
        yield DoctorFinding("History", "records", Level.OK, "all jobs that have ended are recorded")
