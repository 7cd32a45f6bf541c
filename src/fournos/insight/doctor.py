"""What keeps jobs from running: eight looks at a cluster and at the caller's rights, and one at workers.

A look reads what it judges.  What may not be read, or cannot be judged, is unknown, and no fault.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, cast

from fournos import __version__
from fournos.api import appwrapper, fournoscluster, fournosjob, fournosschedule, minicluster
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.conditions import is_true
from fournos.engine.api.crd import crd
from fournos.engine.api.values import parse_time
from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import ForbiddenError, KubeError, NoSuchResourceError, NotFoundError
from fournos.engine.kube.resource import (
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    LEASE,
    SERVICE_ACCOUNT,
    Key,
    Obj,
    key_of,
)
from fournos.engine.queueing.workload import KUEUE
from fournos.engine.runtime.part import APPWRAPPER, FOURNOS, MIN_KUBERNETES, MINICLUSTER, TEKTON, RequiredApi
from fournos.insight.dispatch import Dial, ManagerCluster
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
    fault,
    ok,
    unreadable,
    warning,
)
from fournos.insight.doctor_workers import check_workers
from fournos.insight.source import kueue_namespace, or_error
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


async def examine(
    server: DoctorServer, place: ExaminedNamespaces, now: datetime, dial: Dial | None = None
) -> list[DoctorFinding]:
    """Returns the findings in the order in which faults are best mended.

    The workers of MultiKueue are looked at where `dial` connects to them.  Raises KubeError if the API server
    does not answer at all.
    """
    kubernetes = str(json.loads(await server.raw_get("/version")).get("gitVersion") or "?")
    looks = [
        _findings("Versions", "APIs", check_versions(server, place, kubernetes)),
        _findings("CRDs", "CRDs", check_crds(server)),
        _findings("Kueue", "configuration", check_left_out(server, place)),
        _findings("Queues", "LocalQueues", check_queues(server, place)),
        _findings("Rights", "rights", check_rights(server, place)),
        _findings("Webhooks", "configurations", check_webhooks(server, now)),
        _findings("Operator", f"jobs in {place.namespace}", check_operator(server, place, now)),
        _findings("History", "API", check_history(server, place, now)),
    ]
    if dial is not None:
        manager = ManagerCluster(cast(Api, server), dial, lambda: now, kueue_namespace())
        looks.append(_findings("Workers", "AdmissionChecks", check_workers(manager)))
    return [finding for findings in await asyncio.gather(*looks) for finding in findings]


async def _findings(area: str, what: str, look: Findings) -> list[DoctorFinding]:
    """Returns what a look finds; what it could not read or judge, for `what` or raised, is unknown."""
    findings = []
    try:
        async for finding in look:
            findings.append(replace(finding, area=area))
    except KubeError as error:
        findings.append(replace(unreadable(what, error), area=area))
    except (
        Exception
    ) as error:  # one object that cannot be judged must not keep the other looks from the reader
        text = f"cannot be judged: {type(error).__name__}: {error}"
        findings.append(DoctorFinding(what, Level.UNKNOWN, text, area=area))
    return findings


# --- versions --------------------------------------------------------------------------------------------

_IMAGES: Final = ("fournos", "hearth")
_RELEASE: Final = re.compile(r"v?\d+\.\d+\.\d+")
_APIS: Final = (FOURNOS, APPWRAPPER, MINICLUSTER, KUEUE, TEKTON)
_REQUIRED: Final = (FOURNOS, KUEUE, TEKTON)
_DIFFERENCES: Final = 3
"""Paths of a CRD that are named."""


async def check_versions(server: DoctorServer, place: ExaminedNamespaces, kubernetes: str) -> Findings:
    """Looks at this client, the API server, the operators, and the APIs that jobs need."""
    yield ok("client", f"fournos {__version__}")
    found = re.match(r"v(\d+)\.(\d+)", kubernetes)
    if found and (int(found[1]), int(found[2])) < MIN_KUBERNETES:
        fix = f"upgrade Kubernetes to {'.'.join(map(str, MIN_KUBERNETES))} or newer"
        yield fault("Kubernetes", f"{kubernetes} is too old", fix)
    else:
        yield ok("Kubernetes", kubernetes)
    listing = await or_error(server.list(DEPLOYMENT))
    if isinstance(listing, ForbiddenError):
        listing = await or_error(server.list(DEPLOYMENT, namespace=place.namespace))
    if isinstance(listing, KubeError):
        yield unreadable("operator", listing)
    else:
        operators = [one for one in listing.items if _image(one)[0] in _IMAGES]
        for operator in operators:
            yield _operator_version(operator)
        if not operators:
            text = "no Deployment of it in the namespaces that you may read"
            yield DoctorFinding("operator", Level.UNKNOWN, text)
    groups = {
        str(group["name"]): [str(version["version"]) for version in group.get("versions") or ()]
        for group in json.loads(await server.raw_get("/apis")).get("groups") or ()
    }
    for api in _APIS:
        yield _api_version(api, groups.get(api.group))


def _operator_version(deployment: Obj) -> DoctorFinding:
    what, (_, tag) = f"operator {key_of(deployment)}", _image(deployment)
    if _RELEASE.fullmatch(tag) and tag.removeprefix("v") != __version__:
        fix = f"install the client of that version, or upgrade the operator to {__version__}"
        return warning(what, f"{tag}, and this client is {__version__}", fix)
    return ok(what, tag)


def _image(deployment: Obj) -> tuple[str, str]:
    """The last part of the repository's name and the tag of the first container's image."""
    containers = ((spec_of(deployment).get("template") or {}).get("spec") or {}).get("containers") or ()
    image = str(containers[0].get("image") or "") if containers else ""
    name, _, tag = image.rpartition("/")[2].partition("@")[0].partition(":")
    return name, tag or "latest"


def _api_version(api: RequiredApi, served: list[str] | None) -> DoctorFinding:
    if served is None and api not in _REQUIRED:
        return ok(api.name, "not installed")
    if served is None:
        fix = api.fix if api.ours else f"ask an administrator to install {api.name}"
        return fault(api.name, f"{api.group} is not served", fix)
    if api.version not in served:
        return fault(api.name, f"{api.group} has {', '.join(served)}", api.fix)
    return ok(api.name, f"{api.group}/{api.version}")


# --- CRDs ------------------------------------------------------------------------------------------------


async def check_crds(server: DoctorServer) -> Findings:
    """Compares our CRDs with those of this client's version."""
    for name, expected in _expected().items():
        api = next(api for api in _APIS if api.group == spec_of(expected)["group"])
        installed = await or_error(server.get(CUSTOM_RESOURCE_DEFINITION, Key("", name)))
        if isinstance(installed, NotFoundError):
            if api in _REQUIRED:
                yield fault(name, "it is not installed", api.fix)
        elif isinstance(installed, KubeError):
            yield unreadable(name, installed)
        elif not is_true(installed, "Established"):
            yield fault(name, "the API server has not accepted it", f"see why: kubectl describe crd {name}")
        elif differing := schema_differences(expected, installed):
            yield warning(name, f"it is of another version, which differs in {', '.join(differing)}", api.fix)
        else:
            yield ok(name, "of this version")


@cache
def _expected() -> dict[str, Mapping[str, Any]]:
    return {definition.name: crd(definition, rules=rules) for definition, rules in KINDS}


def schema_differences(expected: Mapping[str, Any], installed: Obj) -> list[str]:
    """Returns the paths where fields or their CEL rules differ, the first of them."""
    mine, theirs = (dict(_fields(_schema(one), "")) for one in (expected, installed))
    paths = [path or "the kind" for path in {**mine, **theirs} if mine.get(path) != theirs.get(path)]
    more = len(paths) - _DIFFERENCES
    return paths if more <= 0 else [*paths[:_DIFFERENCES], f"{more} more"]


def _schema(document: Mapping[str, Any]) -> Mapping[str, Any]:
    version: Mapping[str, Any] = next(iter(spec_of(document).get("versions") or ()), {})
    schema: Mapping[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return schema


def _fields(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Yields each field's path and the CEL rules on it."""
    yield path, frozenset(str(rule.get("rule")) for rule in schema.get("x-kubernetes-validations") or ())
    inner = {f".{name}": field for name, field in (schema.get("properties") or {}).items()}
    inner |= {"[]": schema.get("items"), ".*": schema.get("additionalProperties")}
    for step, field in inner.items():
        if isinstance(field, Mapping):
            yield from _fields(field, f"{path}{step}".removeprefix("."))


# --- the operator and the history ------------------------------------------------------------------------

_RESOLVER: Final = "fournos-resolver"
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
        yield fault(what, "no operator holds a Lease here: nothing is processed", fix)
        return
    holder, renewed = str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or "")
    if not holder or not renewed:
        yield fault(what, "no operator serves it now", fix)
    elif (ago := now - parse_time(renewed)) > _LATE:
        yield fault(what, f"{holder} served it until {short(ago)} ago, and no operator has since", fix)
    else:
        yield ok(what, f"{holder} serves it")
    account = await or_error(server.get(SERVICE_ACCOUNT, Key(place.namespace, _RESOLVER)))
    if isinstance(account, NotFoundError):
        files = "-f manifests/rbac/serviceaccounts.yaml -f manifests/rbac/resolver.yaml"
        fix = f"kubectl apply -n {place.namespace} {files}"
        yield fault(f"ServiceAccount {_RESOLVER}", "there is none: resolvers cannot start", fix)


async def check_history(server: DoctorServer, place: ExaminedNamespaces, now: datetime) -> Findings:
    """Looks whether the history answers from its store, and records the ends of jobs."""
    try:
        await server.raw_get(f"/apis/history.fournos.dev/v1/namespaces/{place.namespace}/runs?limit=1")
    except NoSuchResourceError:
        yield ok("API", "not installed")
        return
    except ForbiddenError:
        raise
    except KubeError as error:
        fix = "see why: kubectl describe apiservice v1.history.fournos.dev, and the log of its Service's pods"
        yield fault("API", error.message, fix)
        return
    yield ok("API", "it answers, and so does its store")
    late = [
        job
        for job in (await server.list(FOURNOS_JOB, namespace=place.namespace)).items
        if is_terminal(job)
        and not status_of(job).get("archivedAt")
        and (end := moment((status_of(job).get("phaseTimes") or {}).get("finished")))
        and now - end > _RECORDED_WITHIN
    ]
    if late:
        text = f"{count(len(late), 'job')} ended long ago and not recorded, such as {name_of(late[0])}"
        fix = "see why: the log of the recorder, kubectl logs -n fournos-history deploy/fournos-history"
        yield fault("records", text, fix)
    else:
        yield ok("records", "all jobs that have ended are recorded")
