"""Checks of the versions of everything that takes part.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from fournos.engine.api.required import APPWRAPPER, FOURNOS, MINICLUSTER, TEKTON, RequiredApi
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Obj, key_of
from fournos.engine.queueing.kinds import KUEUE
from fournos.engine.runtime.preflight import MIN_KUBERNETES
from fournos.insight.doctor.facts import DoctorFacts
from fournos.insight.doctor.finding import DoctorFinding, Level, unreadable
from fournos.insight.values import name_of, spec_of, status_of

VERSIONS: Final = "Versions"
_IMAGES: Final = ("fournos", "hearth")
_RELEASE: Final = re.compile(r"v?\d+\.\d+\.\d+")
VERSION_LABEL: Final = "app.kubernetes.io/version"
"""The label that Kueue's Helm chart sets on its Deployment."""
_SCHEMAS: Final = (
    ("v0.19 or newer", ("spec", "podSets"), 18),
    ("v0.18", ("spec", "podSets"), 10),
    ("v0.17", ("spec", "preemptionGates"), 0),
    ("v0.16", ("status", "nominatedClusterNames"), 20),
    ("v0.15", ("status", "nominatedClusterNames"), 10),
)
"""Series of Kueue, the newest first, with a list of its Workloads and the least `maxItems` of that list."""
APIS: Final = (FOURNOS, APPWRAPPER, MINICLUSTER, KUEUE, TEKTON)
REQUIRED: Final = (FOURNOS, KUEUE, TEKTON)


def check_versions(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    yield DoctorFinding(VERSIONS, "client", Level.OK, f"fournos {facts.client}")
    yield _kubernetes(facts.kubernetes)
    yield from _operators(facts)
    if isinstance(facts.groups, KubeError):
        yield unreadable(VERSIONS, "APIs", facts.groups)
        return
    for api in APIS:
        yield _api(api, facts.groups.get(api.group), _release(api, facts))


def _kubernetes(version: str | KubeError) -> DoctorFinding:
    if isinstance(version, KubeError):
        return unreadable(VERSIONS, "Kubernetes", version)
    found = re.match(r"v(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < MIN_KUBERNETES:
        need = ".".join(map(str, MIN_KUBERNETES))
        fix = f"upgrade Kubernetes to {need} or newer"
        return DoctorFinding(VERSIONS, "Kubernetes", Level.FAULT, f"{version} is too old", fix)
    return DoctorFinding(VERSIONS, "Kubernetes", Level.OK, version)


def _operators(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """The Deployments whose image is that of an operator of ours."""
    if isinstance(facts.deployments, KubeError):
        yield unreadable(VERSIONS, "operator", facts.deployments)
        return
    ours = [one for one in facts.deployments if (_image(one)[0] in _IMAGES)]
    if not ours:
        text = "no Deployment of it in the namespaces that you may read"
        yield DoctorFinding(VERSIONS, "operator", Level.UNKNOWN, text)
    for deployment in ours:
        yield _operator(deployment, facts.client)


def _operator(deployment: Obj, client: str) -> DoctorFinding:
    what, (_, tag) = f"operator {key_of(deployment)}", _image(deployment)
    replicas = int(spec_of(deployment).get("replicas", 1))
    ready = int(status_of(deployment).get("readyReplicas") or 0)
    if replicas and not ready:
        fix = f"see why: kubectl describe deployment {name_of(deployment)} -n {key_of(deployment).namespace}"
        return DoctorFinding(
            VERSIONS, what, Level.FAULT, f"{tag}: none of its {replicas} replicas is ready", fix
        )
    if _RELEASE.fullmatch(tag) and tag.removeprefix("v") != client:
        fix = f"install the client of that version, or upgrade the operator to {client}"
        return DoctorFinding(VERSIONS, what, Level.WARNING, f"{tag}, and this client is {client}", fix)
    return DoctorFinding(VERSIONS, what, Level.OK, f"{tag}, {ready} of {replicas} ready")


def _image(deployment: Obj) -> tuple[str, str]:
    """The last part of the repository's name and the tag of the first container's image."""
    containers = ((spec_of(deployment).get("template") or {}).get("spec") or {}).get("containers") or ()
    image = str(containers[0].get("image") or "") if containers else ""
    name, _, tag = image.rpartition("/")[2].partition("@")[0].partition(":")
    return name, tag or "latest"


def _release(api: RequiredApi, facts: DoctorFacts) -> str:
    """The release of Kueue or Tekton, where it can be read."""
    if api is TEKTON and isinstance(facts.tekton, Mapping):
        return str((facts.tekton.get("data") or {}).get("version") or "")
    if api is KUEUE and not isinstance(facts.deployments, KubeError):
        manager = next((one for one in facts.deployments if name_of(one) == "kueue-controller-manager"), None)
        if manager is not None and _RELEASE.match(release := _image(manager)[1]):
            return release
        label = ((manager or {}).get("metadata", {}).get("labels") or {}).get(VERSION_LABEL)
        return str(label or _series(facts.workload_crd) or (_image(manager)[1] if manager else ""))
    return _series(facts.workload_crd) if api is KUEUE else ""


def _series(crd: Obj | KubeError | None) -> str:
    """The series of Kueue by the schema of its Workloads, where no image or label names it; "" if unknown."""
    if not isinstance(crd, Mapping):
        return ""
    versions = {one.get("name"): one for one in spec_of(crd).get("versions") or ()}
    version = versions.get(KUEUE.version) or {}
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    for series, path, limit in _SCHEMAS:
        field = schema
        for name in path:
            field = (field.get("properties") or {}).get(name) or {}
        if field and field.get("maxItems", 0) >= limit:
            return f"{series}, by its CRDs"
    return ""


def _api(api: RequiredApi, served: tuple[str, ...] | None, release: str) -> DoctorFinding:
    name = f"{api.group}/{api.version}"
    if served is None:
        if api in REQUIRED:
            fix = api.fix if api.ours else f"ask an administrator to install {api.name}"
            return DoctorFinding(VERSIONS, api.name, Level.FAULT, f"{api.group} is not served", fix)
        return DoctorFinding(VERSIONS, api.name, Level.OK, "not installed")
    if api.version not in served:
        return DoctorFinding(VERSIONS, api.name, Level.FAULT, f"{api.group} has {', '.join(served)}", api.fix)
    return DoctorFinding(VERSIONS, api.name, Level.OK, f"{release}, {name}".removeprefix(", "))
