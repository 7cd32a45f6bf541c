"""Checks of Kueue's Configuration, where it can be read.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.required import APPWRAPPER, MINICLUSTER
from fournos.engine.kube.errors import KubeError, NotFoundError
from fournos.engine.kube.yamls import YamlError, load_all
from fournos.engine.queueing.kind_names import name_of as kind_name
from fournos.insight.doctor.facts import KUEUE_CONFIGURATION, KUEUE_ROLE, DoctorFacts
from fournos.insight.doctor.finding import DoctorFinding, Level, unreadable
from fournos.insight.doctor.namespaces import labels_of, selected
from fournos.systems.multikueue.config import BadConfigError, read

AREA: Final = "Kueue"
_FILE: Final = "controller_manager_config.yaml"
_OWN_INTEGRATION: Final = "workload.codeflare.dev/appwrapper"
_APPWRAPPERS: Final = f"AppWrapper.{APPWRAPPER.version}.{APPWRAPPER.group}"
_MINICLUSTERS: Final = f"MiniCluster.{MINICLUSTER.version}.{MINICLUSTER.group}"
_NEVER_MANAGED: Final = frozenset({"kube-system", KUEUE_CONFIGURATION.namespace})
"""Kueue 0.18 and newer leave them out whatever the selector is; before, most kinds did."""
_EDIT: Final = (
    f"kubectl edit configmap {KUEUE_CONFIGURATION.name} -n {KUEUE_CONFIGURATION.namespace}, "
    "then restart its Deployment kueue-controller-manager"
)


def check_kueue(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    what = "configuration"
    if isinstance(facts.kueue, NotFoundError):
        text = f"there is no ConfigMap {KUEUE_CONFIGURATION}; Kueue may be configured elsewhere"
        yield DoctorFinding(AREA, what, Level.UNKNOWN, text)
        return
    if facts.kueue is None or isinstance(facts.kueue, KubeError):
        yield unreadable(AREA, what, facts.kueue or KubeError("it was not read"))
        return
    text = str((facts.kueue.get("data") or {}).get(_FILE) or "")
    try:
        document = next(iter(load_all(text)), None) or {}
        if not isinstance(document, Mapping):
            raise BadConfigError("a map is expected")
        read(text)
    except (YamlError, BadConfigError) as error:
        yield DoctorFinding(AREA, what, Level.FAULT, f"{_FILE}: {error}", f"correct it: {_EDIT}")
        return
    yield DoctorFinding(AREA, what, Level.OK, f"ConfigMap {KUEUE_CONFIGURATION}")
    yield from _integrations(document, facts)
    yield from _unnamed_queues(document, facts)
    yield from _left_out(document, facts)


def _integrations(document: Mapping[str, Any], facts: DoctorFacts) -> Iterator[DoctorFinding]:
    section = document.get("integrations") or {}
    own = tuple(map(str, section.get("frameworks") or ()))
    external = tuple(map(str, section.get("externalFrameworks") or ()))
    served = facts.groups if isinstance(facts.groups, Mapping) else {}
    yield DoctorFinding(AREA, "integrations", Level.OK, ", ".join((*own, *external)) or "none")
    if APPWRAPPER.group in served:
        yield _appwrappers(own, external)
    if MINICLUSTER.group in served:
        listed = _MINICLUSTERS in external
        yield DoctorFinding(
            AREA,
            "MiniClusters",
            Level.OK if listed else Level.WARNING,
            "listed" if listed else "they are not listed: Kueue would queue their Jobs as well",
            "" if listed else f"list {_MINICLUSTERS} under integrations.externalFrameworks: {_EDIT}",
        )
    if kind_name(FOURNOS_JOB) in external and isinstance(facts.kueue_role, NotFoundError):
        text = "Kueue looks up the FournosJob of each Job, and has no binding that lets it read FournosJobs"
        fix = "kubectl apply --server-side -k deploy/kueue"
        yield DoctorFinding(AREA, f"ClusterRoleBinding {KUEUE_ROLE}", Level.WARNING, text, fix)


def _appwrappers(own: Sequence[str], external: Sequence[str]) -> DoctorFinding:
    """Checks that exactly one of Kueue and our operator makes the Workloads of AppWrappers."""
    by_kueue, by_us = _OWN_INTEGRATION in own, _APPWRAPPERS in external
    if by_kueue and by_us:
        text = "they are listed twice, as Kueue's own integration and as an external framework"
        fix = f"leave one of {_OWN_INTEGRATION} and {_APPWRAPPERS}: {_EDIT}"
        return DoctorFinding(AREA, "AppWrappers", Level.FAULT, text, fix)
    if not by_kueue and not by_us:
        fix = f"list {_OWN_INTEGRATION} under integrations.frameworks: {_EDIT}"
        return DoctorFinding(
            AREA, "AppWrappers", Level.WARNING, "they are not listed, and are not queued", fix
        )
    whose = "Kueue makes their Workloads" if by_kueue else "the operator makes their Workloads"
    return DoctorFinding(AREA, "AppWrappers", Level.OK, whose)


def _left_out(document: Mapping[str, Any], facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Finds that Kueue's own integrations ignore the namespace, even objects in it that name a queue."""
    namespace = facts.place.namespace
    what = f"namespace {namespace}"
    if namespace in _NEVER_MANAGED:
        text = "Kueue leaves it out: AppWrappers and Jobs that name a queue run there without quota"
        fix = "use another namespace for jobs (FOURNOS_NAMESPACE)"
        yield DoctorFinding(AREA, what, Level.FAULT, text, fix)
        return
    selector = document.get("managedJobsNamespaceSelector") or {}
    if document.get("manageJobsWithoutQueueName") or selected(selector, labels_of(facts)):
        return
    text = "Kueue leaves out AppWrappers and Jobs of it, also those that name a queue: they run without quota"
    fix = f"select {namespace} in managedJobsNamespaceSelector: {_EDIT}"
    yield DoctorFinding(AREA, what, Level.WARNING, text, fix)


def _unnamed_queues(document: Mapping[str, Any], facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Checks manageJobsWithoutQueueName: with it Kueue holds back the Jobs and pods of a FournosJob's run."""
    what = "manageJobsWithoutQueueName"
    if not document.get(what):
        yield DoctorFinding(AREA, what, Level.OK, "off")
        return
    namespace = facts.place.namespace
    if not selected(document.get("managedJobsNamespaceSelector") or {}, labels_of(facts)):
        yield DoctorFinding(AREA, what, Level.OK, f"on, without namespace {namespace}")
        return
    yield DoctorFinding(
        AREA,
        what,
        Level.WARNING,
        f"on in namespace {namespace}: Kueue holds back the resolve Jobs and pods of every FournosJob",
        f"exclude {namespace} in managedJobsNamespaceSelector: {_EDIT}",
    )
