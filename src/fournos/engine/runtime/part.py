"""A part of the operator: what one system declares in its package, and `fournos run --enable` starts."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

import orjson
from pydantic import Field
from pydantic_settings import BaseSettings

from fournos.engine.api.crd import Definition
from fournos.engine.api.rules import Rule
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import KubeError, NotFoundError
from fournos.engine.kube.resource import Key, Resource
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Controller
from fournos.engine.runtime.manager import COLLECT_INTERVAL, Manager
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.webhook.registration import Service
from fournos.engine.runtime.webhook.review import Webhook

# --- types of settings ------------------------------------------------------------------------------

LogLevel = Annotated[
    Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], Field(description="Logging level")
]
Seconds = Annotated[float, Field(gt=0)]
"""A duration, more than 0."""


# --- checks at start --------------------------------------------------------------------------------
# Checks at start that the cluster can run this operator, instead of failing jobs later.

MIN_KUBERNETES = (1, 30)
"""The first version with optionalOldSelf: CEL rules that do not apply to objects stored before them."""


class UnsupportedError(Exception):
    """The cluster does not meet a requirement.

    The message states what exists, what is needed, and what to do.
    """


async def preflight(api: Client, required: Iterable[RequiredApi]) -> list[str]:
    """Returns warnings about missing APIs.

    Raises UnsupportedError, or KubeError if the API server cannot be read.
    """
    version = await api.server_version()
    found = re.match(r"v(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < MIN_KUBERNETES:
        need = ".".join(map(str, MIN_KUBERNETES))
        raise UnsupportedError(f"Kubernetes {version} is too old: Fournos needs {need} or newer")
    warnings = []
    for api_group in required:
        served = await _versions(api, api_group.group)
        if served is None and api_group.ours:
            raise UnsupportedError(f"{api_group.name} is not installed: {api_group.fix}")
        if served is None:
            warnings.append(f"{api_group.name} is not installed: jobs wait for it")
        elif api_group.version not in served:
            have = ", ".join(served)
            raise UnsupportedError(
                f"{api_group.name} serves {api_group.group} in {have}, not in {api_group.version}:"
                f" {api_group.fix}"
            )
    return warnings


async def verify_kinds(api: Client, kinds: Iterable[Resource], *, setting: str) -> list[str]:
    """Returns warnings about kinds whose CRD is not installed yet.

    Raises UnsupportedError for a wrong name, because no object could ever exist under it.
    """
    warnings = []
    for kind in kinds:
        name = f"{kind.kind}.{kind.version}.{kind.group}"
        try:
            answer = orjson.loads(await api.raw_get(f"/apis/{kind.group}/{kind.version}"))
        except KubeError as error:
            if error.status != 404:
                raise
            warnings.append(f"{setting}: {name} is not served here: its jobs wait for the CRD")
            continue
        served = {one["kind"]: one for one in answer.get("resources") or () if "/" not in one["name"]}
        served_kind = served.get(kind.kind)
        if served_kind is None:
            have = ", ".join(sorted(served))
            raise UnsupportedError(
                f"{setting}: {name}: {kind.group}/{kind.version} has no kind {kind.kind}; it has {have}"
            )
        if served_kind["name"] != kind.plural:
            raise UnsupportedError(
                f"{setting}: {name}: its plural is not the usual one: write {name}={served_kind['name']}"
            )
        if not served_kind.get("namespaced"):
            raise UnsupportedError(
                f"{setting}: {name} is not namespaced: only what is in a namespace can be queued"
            )
    return warnings


async def _versions(api: Client, group: str) -> tuple[str, ...] | None:
    try:
        answer = orjson.loads(await api.raw_get(f"/apis/{group}"))
    except NotFoundError:
        return None
    except KubeError as error:
        if error.status == 404:
            return None
        raise
    return tuple(version["version"] for version in answer.get("versions") or ())


# --- required APIs ----------------------------------------------------------------------------------
# The APIs that a part of the operator needs in its cluster.


@dataclass(frozen=True, slots=True)
class RequiredApi:
    """An API group that must be served in this version.

    If it is absent, jobs wait for it.  If only other versions are served, the operator does not start.
    """

    name: str
    group: str
    version: str
    fix: str
    ours: bool = False
    """True if its CRDs belong to this product; the operator does not start without them."""


FOURNOS: Final = RequiredApi(
    "Fournos", "fournos.dev", "v1", "apply its CRDs with: kubectl apply -f manifests/crd.yaml", ours=True
)
"""The group of FournosJobs and FournosClusters, whose CRDs are installed together."""
APPWRAPPER: Final = RequiredApi(
    "AppWrapper",
    "workload.codeflare.dev",
    "v1beta2",
    "apply its CRD with: kubectl apply --server-side -f deploy/appwrapper/crd.yaml",
    ours=True,
)
MINICLUSTER: Final = RequiredApi(
    "MiniCluster",
    "flux-framework.org",
    "v1alpha2",
    "apply its CRD with: kubectl apply --server-side -f deploy/minicluster/crd.yaml",
    ours=True,
)
TEKTON: Final = RequiredApi(
    "Tekton Pipelines", "tekton.dev", "v1", "upgrade Tekton Pipelines to 0.44 or newer"
)


Wake = Callable[[str, Key | None], None]
"""Enqueues a key of the controller with this name; with None, all its keys."""

Settings = TypeVar("Settings", bound=BaseSettings)


@dataclass(frozen=True, slots=True)
class Running:
    """What a started part adds to the process."""

    controllers: Sequence[Controller[Any]]
    background: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    """Tasks that run beside the controllers, by name; each is restarted when it ends."""
    serve: Callable[[Client], Mapping[str, Callable[[], Awaitable[None]]]] = lambda api: {}
    """Returns further tasks, with a client that no Lease guards: they run on every replica."""
    started: Callable[[Manager], None] = lambda manager: None
    """Called with the part's manager before it works, for tasks that read its caches."""
    problems: Callable[[], Iterable[str]] = tuple
    """Returns what keeps the part from being ready, one line each, beside its caches."""
    refresh: Callable[[Manager], None] = lambda manager: None
    """Updates the part's own gauges before metrics are read."""


@dataclass(frozen=True, slots=True)
class WebhookManifest(Generic[Settings]):
    """The generated manifest of a part's webhook configurations."""

    path: str
    service: Service
    settings: Callable[[], Settings]
    """Returns the settings with which it is generated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Generic[Settings]):
    """A part of the operator: what it runs, what it needs in the cluster, and what it publishes."""

    name: str
    """The value of `fournos run --enable`."""
    title: str
    """The heading of its settings in the reference."""
    settings: type[Settings]
    start: Callable[[Settings, Clock, Metrics, Wake], Running]
    """Starts the part from its settings, the clock, the metrics and a function that enqueues a key."""
    lease: str
    """The name of its Lease: of several replicas, one works.  "": the part has no controllers, only tasks
    that run on every replica."""
    namespace: str = ""
    """The namespace into which it is shipped, if it has no setting of this name."""
    required: tuple[RequiredApi, ...]
    """The APIs that the part needs in the cluster."""
    collect_interval: Callable[[Settings], float] = lambda settings: COLLECT_INTERVAL
    """Returns the seconds between two garbage collections."""
    webhooks: Callable[[Settings], Sequence[Webhook]] = lambda settings: ()
    """Returns the part's admission webhooks for its settings."""
    webhook_manifest: WebhookManifest[Settings] | None = None
    verify: Callable[[Settings, Client], Awaitable[list[str]]] | None = None
    """Verifies what the settings name; returns warnings.  Raises UnsupportedError."""
    kinds: tuple[tuple[Definition, tuple[Rule, ...]], ...] = ()
    """The CRDs of the part: each model with the validation rules of the controller's package."""

    @property
    def prefix(self) -> str:
        return str(self.settings.model_config.get("env_prefix") or "")
