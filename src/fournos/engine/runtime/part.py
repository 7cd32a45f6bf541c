"""A part of the operator: what one system declares in its package, and `fournos run --enable` starts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic_settings import BaseSettings

from fournos.engine.api.crd import Definition
from fournos.engine.api.rules import Rule
from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Controller
from fournos.engine.runtime.manager import Manager
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.preflight import RequiredApi
from fournos.engine.runtime.webhook.registration import Service
from fournos.engine.runtime.webhook.types import Webhook

COLLECT_INTERVAL = 300.0
"""Seconds between garbage collections, for parts without a setting of their own."""

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
