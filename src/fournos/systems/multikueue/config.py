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
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from fournos.api.phase import TERMINAL
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.values import parse_duration
from fournos.engine.kube.errors import CredentialsError
from fournos.engine.kube.formats import YamlError, load_all
from fournos.engine.kube.resource import Obj, Resource, key_of, without_null
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


_ENDS: dict[tuple[str, str], frozenset[str]] = {
    ("fournos.dev", "FournosJob"): TERMINAL,
    ("workload.codeflare.dev", "AppWrapper"): frozenset({"Succeeded", "Failed"}),
    ("flux-framework.org", "MiniCluster"): frozenset({"Finished"}),
}
"""Kinds whose status has a phase, with those that are final."""


def has_ended(resource: Resource, status: Obj) -> bool | None:
    """Returns True if the status of a copy is its last one; None for a kind whose end is not known here."""
    if (resource.group, resource.kind) == ("tekton.dev", "PipelineRun"):
        return (condition({"status": status}, "Succeeded") or {}).get("status") in ("True", "False")
    ends = _ENDS.get((resource.group, resource.kind))
    return None if ends is None else str(status.get("phase")) in ends


def has_succeeded(status: Obj) -> bool:
    """Returns True if the status of an ended copy is that of a success."""
    if is_true({"status": status}, "Succeeded") or status.get("phase") == "Succeeded":
        return True
    return status.get("exitCode") == 0


# --- Kueue's Configuration -------------------------------------------------------------------------------

_LABEL_VALUE: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_Duration = Annotated[
    timedelta, Field(ge=timedelta(0)), BeforeValidator(lambda value: parse_duration(str(value)))
]


class BadConfigError(ValueError):
    """An invalid Configuration.  The message names the invalid field and the expected content."""


class ExternalFramework(BaseModel):
    """A kind that is dispatched, in the form `Kind.version.group`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str


class MultiKueueConfiguration(BaseModel):
    """The section `multiKueue`.  The fields of type Any are about Kueue's own adapter alone."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)

    external_frameworks: tuple[ExternalFramework, ...] = ()
    origin: Annotated[str, Field(pattern=f"^{_LABEL_VALUE}$")] = "fournos"
    """Label value of all that is made on workers.  Managers that share a worker need different ones."""
    worker_lost_timeout: _Duration = timedelta(minutes=15)
    gc_interval: _Duration = timedelta(minutes=1)
    """Time between two looks for objects on workers whose Workload is gone; 0 counts as a minute."""
    dispatcher_name: Any = None
    cluster_profile: Any = None
    incremental_dispatcher_config: Any = None


def read(text: str) -> MultiKueueConfiguration:
    """Parses the text of a Configuration.  Raises BadConfigError."""
    document = _loaded(text)
    if isinstance(document.get("data"), Mapping):
        # The ConfigMap that Kueue is installed with, or the form of the page's example.
        data = document["data"]
        whole = data.get("controller_manager_config.yaml")
        document = _loaded(whole) if isinstance(whole, str) else data
    present = [key for key in ("multiKueue", "multikueue") if key in document]
    if len(present) > 1:
        raise BadConfigError("multiKueue and multikueue both: write multiKueue only")
    section = document[present[0]] if present else None
    try:
        return MultiKueueConfiguration.model_validate(without_null(section or {}))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, ("multiKueue", *first["loc"])))
        raise BadConfigError(f"{field}: {first['msg']}") from None


def read_file(path: str) -> MultiKueueConfiguration:
    """Parses a Configuration; without a path that of an empty one.  Raises BadConfigError."""
    if not path:
        return MultiKueueConfiguration()
    try:
        return read(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfigError(f"{path} cannot be read: {type(error).__name__}") from None


def _loaded(text: str) -> Any:
    try:
        document = next(iter(load_all(text)), None)
    except YamlError as error:
        raise BadConfigError(str(error)) from None
    if not isinstance(document, Mapping):
        raise BadConfigError("not a Kueue Configuration: a map is expected")
    return document


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
