"""What the adapter is configured with: the kinds, Kueue's Configuration, the workers' kubeconfig Secrets.

Kinds are written as in Kueue's Configuration: `Kind.version.group`.  Of its section `multiKueue` two
spellings are accepted: Kueue's own, and `multikueue`, which Kueue's page on external frameworks shows (Kueue
itself exits on that one).  That page also puts the whole document below `data`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fournos.api.phase import TERMINAL
from fournos.engine.api.values import parse_duration
from fournos.engine.kube.errors import CredentialsError
from fournos.engine.kube.formats import YamlError, load_all
from fournos.engine.kube.resource import Obj, Resource, key_of
from fournos.engine.queueing.kinds import GROUP, VERSION
from fournos.engine.queueing.workload import BadNameError, parse_name
from fournos.systems.multikueue.names import KUBECONFIG, MULTIKUEUE

# --- kinds -----------------------------------------------------------------------------------------------

MULTIKUEUE_CONFIG = Resource(GROUP, VERSION, "MultiKueueConfig", "multikueueconfigs", namespaced=False)
MULTIKUEUE_CLUSTER = Resource(GROUP, VERSION, "MultiKueueCluster", "multikueueclusters", namespaced=False)

_KUBERNETES = frozenset({"batch", "apps"})
"""Excluded API groups: their API servers validate status (a suspended Job cannot have a startTime)."""
_PLURAL = re.compile(r"[a-z][a-z0-9]*")


def parse(name: str) -> Resource:
    """Parses `Kind.version.group`, or `Kind.version.group=plural` for an irregular plural.

    Raises BadNameError.
    """
    text, _, plural = name.strip().partition("=")
    if text.rpartition(".")[2] in _KUBERNETES:
        raise BadNameError(f"'{name}': Kubernetes' own kinds are left to Kueue's adapter ({MULTIKUEUE})")
    if plural and not _PLURAL.fullmatch(plural):
        raise BadNameError(f"'{name}': the plural after '=' is not the name of a resource type")
    return parse_name(text, plural=plural)


def parse_all(names: Iterable[str]) -> tuple[Resource, ...]:
    """Parses all names.  Raises BadNameError, also for a kind that occurs twice."""
    resources: dict[tuple[str, str], Resource] = {}
    for name in names:
        resource = parse(name)
        if resources.setdefault((resource.group, resource.kind), resource) is not resource:
            raise BadNameError(f"'{name}': the kind is named twice")
    return tuple(resources.values())


_HOLD: dict[tuple[str, str], Obj] = {
    ("tekton.dev", "PipelineRun"): {"status": "PipelineRunPending"},
    # spec.suspend is the user's hold; only the prebuilt Workload holds the job back.
    ("fournos.dev", "FournosJob"): {},
}


def held_back(resource: Resource, spec: Obj) -> Obj:
    """Returns the spec fields that make a copy wait on the worker until its Workload is admitted.

    An unknown kind waits by spec.suspend, if its spec has that field.
    """
    known = _HOLD.get((resource.group, resource.kind))
    if known is not None:
        return known
    return {"suspend": True} if "suspend" in spec else {}


_ENDED: dict[tuple[str, str], tuple[str, frozenset[str]]] = {
    # The Workload of a FournosJob finishes before the job's own status has the end.
    ("fournos.dev", "FournosJob"): ("phase", TERMINAL),
}


def has_ended(resource: Resource, status: Obj) -> bool:
    """Returns True if the status of a copy with a finished Workload is its last one, as for most kinds."""
    field, ends = _ENDED.get((resource.group, resource.kind), ("", frozenset()))
    return not field or status.get(field) in ends


# --- Kueue's Configuration -------------------------------------------------------------------------------

_KEYS = ("multiKueue", "multikueue")
_FIELDS = frozenset(
    {
        *("externalFrameworks", "origin", "gcInterval", "workerLostTimeout", "dispatcherName"),
        *("clusterProfile", "incrementalDispatcherConfig"),
    }
)
"""Those of Kueue; what is not read is about its own adapter alone."""


class BadConfigError(ValueError):
    """An invalid Configuration.  The message names the invalid field and the expected content."""


@dataclass(frozen=True, slots=True)
class MultiKueueConfiguration:
    """The settings in the file; None for a setting that is absent."""

    frameworks: tuple[str, ...] = ()
    """Names in the form `Kind.version.group`, not validated yet."""
    origin: str | None = None
    worker_lost_timeout: float | None = None
    """Seconds."""


def read(text: str) -> MultiKueueConfiguration:
    """Parses the text of a Configuration.  Raises BadConfigError."""
    document = _loaded(text)
    if not isinstance(document, Mapping):
        raise BadConfigError("not a Kueue Configuration: a map is expected")
    if isinstance(document.get("data"), Mapping):
        document = _inner(document["data"])
    present = [key for key in _KEYS if key in document]
    if len(present) > 1:
        raise BadConfigError("multiKueue and multikueue both: write multiKueue only")
    if not present:
        return MultiKueueConfiguration()
    section = document[present[0]] or {}
    if not isinstance(section, Mapping):
        raise BadConfigError(f"{present[0]} must be a map")
    unknown = sorted(map(str, section.keys() - _FIELDS))
    if unknown:
        raise BadConfigError(
            f"{present[0]}.{unknown[0]}: no such field; there are {', '.join(sorted(_FIELDS))}"
        )
    return MultiKueueConfiguration(
        frameworks=_frameworks(section.get("externalFrameworks") or (), present[0]),
        origin=_text(section, "origin", present[0]),
        worker_lost_timeout=_seconds(section, "workerLostTimeout", present[0]),
    )


def _loaded(text: str) -> Any:
    try:
        return next(iter(load_all(text)), None)
    except YamlError as error:
        raise BadConfigError(str(error)) from None


def _inner(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the Configuration inside `data`.

    It is that of the ConfigMap that Kueue is installed with, or of the page's example.
    """
    whole = data.get("controller_manager_config.yaml")
    if isinstance(whole, str):
        document = _loaded(whole)
        if isinstance(document, Mapping):
            return document
        raise BadConfigError("data.controller_manager_config.yaml: a map is expected")
    return data


def _frameworks(entries: Any, at: str) -> tuple[str, ...]:
    if not isinstance(entries, list | tuple):
        raise BadConfigError(f"{at}.externalFrameworks must be a list of maps with a name")
    names = []
    for number, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or set(entry) != {"name"}:
            raise BadConfigError(
                f"{at}.externalFrameworks[{number}]: write a map with a name, such as "
                '{name: "PipelineRun.v1.tekton.dev"}'
            )
        names.append(name)
    return tuple(names)


def _text(section: Mapping[str, Any], field: str, at: str) -> str | None:
    value = section.get(field)
    if value is not None and not isinstance(value, str):
        raise BadConfigError(f"{at}.{field} must be text")
    return value


def _seconds(section: Mapping[str, Any], field: str, at: str) -> float | None:
    value = _text(section, field, at)
    if value is None:
        return None
    try:
        return parse_duration(value).total_seconds()
    except ValueError as error:
        raise BadConfigError(f"{at}.{field}: {error}") from None


# --- kubeconfig Secrets ----------------------------------------------------------------------------------

PUT_KUBECONFIG: Final = f"put the worker's kubeconfig into it, under the key {KUBECONFIG}"


def content_of(secret: Obj) -> bytes:
    """Returns the kubeconfig in a Secret.  Raises CredentialsError."""
    encoded = (secret.get("data") or {}).get(KUBECONFIG)
    if not encoded:
        raise CredentialsError(f"Secret {key_of(secret)} has no key {KUBECONFIG}: {PUT_KUBECONFIG}")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise CredentialsError(f"Secret {key_of(secret)}: {KUBECONFIG} is not base64") from None
