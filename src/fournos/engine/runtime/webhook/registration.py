"""The webhook configurations: the objects that register our webhooks at the API server.

A configuration is ours by its label, whose value is the operator's namespace.  The leader keeps our
configurations equal to the operator's table.  Every replica adds the certificate authorities, so that its own
certificate is trusted whichever replica leads.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import AlreadyExistsError, ConflictError, KubeError
from fournos.engine.kube.reflector import Reflector
from fournos.engine.kube.resource import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Key, Obj, Resource
from fournos.engine.kube.store import Store
from fournos.engine.runtime.certificates import TERMS, CertRotator, Pair, Terms, trusts
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.metrics import WEBHOOK_CERTIFICATE_END_SECONDS, Metrics
from fournos.engine.runtime.webhook.review import Webhook

LABEL: Final = "fournos.dev/webhooks-of"
"""Label on each configuration of ours; its value is the namespace of the operator that owns it."""
RESOURCES: Final[Mapping[str, Resource]] = {"mutating": MUTATING_WEBHOOKS, "validating": VALIDATING_WEBHOOKS}


@dataclass(frozen=True, slots=True)
class Service:
    """A Service in front of the replicas, from its port 443 to `port` of each."""

    namespace: str
    name: str
    port: ClassVar[int] = 9443

    @property
    def secret(self) -> str:
        """The name of the Secret with the certificate."""
        return f"{self.name}-cert"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The DNS names for the certificate; the API server verifies the first."""
        short = f"{self.name}.{self.namespace}.svc"
        return (short, f"{short}.cluster.local")

    def client_config(self, path: str) -> dict[str, Any]:
        service = {"namespace": self.namespace, "name": self.name, "path": path, "port": 443}
        return {"service": service}


@dataclass(frozen=True, slots=True)
class Address:
    """A base URL at which the API server reaches this process directly; for development."""

    url: str
    secret: ClassVar[str] = "fournos-webhooks-cert"  # noqa: S105 - a name

    def __post_init__(self) -> None:
        """Raises ValueError for a URL that the API server would reject."""
        parts = urlsplit(self.url)
        if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username:
            raise ValueError(f"{self.url!r} is not an address such as https://192.0.2.7:9443")

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 443

    @property
    def hosts(self) -> tuple[str, ...]:
        return (str(urlsplit(self.url).hostname),)

    def client_config(self, path: str) -> dict[str, Any]:
        return {"url": self.url.rstrip("/") + path}


Target = Service | Address


# --- settings -------------------------------------------------------------------------------------


class WebhookSettings(BaseSettings):
    """Every field is one variable: `FOURNOS_WEBHOOK_` + the field's name in capitals."""

    model_config = SettingsConfigDict(env_prefix="FOURNOS_WEBHOOK_", extra="ignore")

    service: str = Field(
        "",
        description="Service in the operator's namespace by which the API server reaches the webhooks; "
        "without it, and without `fournos run --webhook-url`, none are served. The Secret of the certificate "
        "has its name with -cert",
    )
    client_authorities: str = Field(
        "",
        description="File of certificate authorities (PEM): whoever asks must show a client certificate of "
        "one of them, as an API server does that is started with --admission-control-config-file",
    )

    def target(self, namespace: str, url: str = "") -> Target | None:
        """None: no webhooks are served.  `url` has precedence over the service; ValueError: it is none."""
        if url:
            return Address(url)
        return Service(namespace, self.service) if self.service else None


# --- the objects ----------------------------------------------------------------------------------


def configurations(
    webhooks: Iterable[Webhook], target: Target, *, owner: str, bundle: bytes = b""
) -> dict[tuple[Resource, str], Obj]:
    """Returns the wanted objects by resource type and name.

    `owner` is the label's value.  Every field is set explicitly, so that the API server adds no default and a
    comparison with its copy finds real differences only.
    """
    bodies: dict[tuple[Resource, str], dict[str, Any]] = {}
    for webhook in webhooks:
        resource = RESOURCES[webhook.kind]
        body = bodies.setdefault(
            (resource, webhook.configuration),
            {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "metadata": {"name": webhook.configuration, "labels": {LABEL: owner}},
                "webhooks": [],
            },
        )
        body["webhooks"].append(_entry(webhook, target, bundle))
    return dict(bodies)


def _entry(webhook: Webhook, target: Target, bundle: bytes) -> dict[str, Any]:
    config = target.client_config(webhook.path)
    if bundle:
        config["caBundle"] = base64.b64encode(bundle).decode()
    entry: dict[str, Any] = {
        "name": webhook.name,
        "clientConfig": config,
        "rules": [
            {
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "operations": list(webhook.operations),
                "resources": [
                    f"{resource.plural}/{part}" if part else resource.plural for part in webhook.subresources
                ],
                "scope": "Namespaced" if resource.namespaced else "Cluster",
            }
            for resource in webhook.resources
        ],
        "admissionReviewVersions": ["v1"],
        "failurePolicy": webhook.failure_policy,
        "matchPolicy": "Equivalent",
        "namespaceSelector": dict(webhook.namespaces),
        "objectSelector": {},  # users choose labels: a protection must not depend on them
        "sideEffects": "None",
        "timeoutSeconds": webhook.timeout,
    }
    if webhook.kind == "mutating":
        entry["reinvocationPolicy"] = "IfNeeded" if webhook.again else "Never"
    if webhook.conditions:
        entry["matchConditions"] = [{"name": name, "expression": cel} for name, cel in webhook.conditions]
    return entry


def correction(existing: Obj, body: Obj, *, whole: bool) -> dict[str, Any] | None:
    """Returns the merge patch that corrects a configuration of ours, None if it is correct.

    `whole`: corrects all entries by the table; else only the authorities, because another version may have
    written the entries.
    """
    entries: Sequence[Obj] = existing.get("webhooks") or ()
    if whole:
        better = list(body["webhooks"])
    else:
        bundle = body["webhooks"][0]["clientConfig"]["caBundle"]
        better = [
            {**entry, "clientConfig": {**entry["clientConfig"], "caBundle": bundle}} for entry in entries
        ]
    if better == list(entries):
        return None
    return {
        # The precondition: other replicas write too, and the list of webhooks is replaced.
        "metadata": {"resourceVersion": existing["metadata"]["resourceVersion"]},
        "webhooks": better,
    }


def trusting(existing: Obj, pair: Pair) -> bool:
    """True if every entry of the configuration trusts this certificate."""
    bundles = {entry["clientConfig"].get("caBundle") or "" for entry in existing.get("webhooks") or ()}
    return bool(bundles) and all(trusts(base64.b64decode(bundle), pair) for bundle in bundles)


# --- keeping them ---------------------------------------------------------------------------------


class Registrar:
    """Keeps the certificate and corrects the webhook configurations.  Runs on every replica."""

    def __init__(
        self,
        api: Api,
        webhooks: Sequence[Webhook],
        target: Target,
        *,
        secret: Key,
        clock: Clock,
        metrics: Metrics,
        leading: Callable[[], Awaitable[None]],
        show: Callable[[Pair], None],
        terms: Terms = TERMS,
    ) -> None:
        """`leading()` returns once this process is the leader.

        `show(pair)` is called with each certificate to serve from now on.
        """
        self._api = api
        self._webhooks = webhooks
        self._target = target
        self._owner = secret.namespace
        self._clock = clock
        self._metrics = metrics
        self._leading = leading
        self._show = show
        self._certificate = CertRotator(
            api,
            secret,
            hosts=target.hosts,
            clock=clock,
            name="webhooks",
            show=self._present,
            publish=self._register,
            terms=terms,
        )
        self._names = frozenset(configurations(webhooks, target, owner=self._owner))
        self._stores = {resource: Store() for resource, _ in self._names}
        self._reflectors = [
            Reflector(
                api,
                resource,
                store,
                selector=f"{LABEL}={self._owner}",
                on_change=lambda *_: self._certificate.look(),
                on_state=self._certificate.look,
            )
            for resource, store in self._stores.items()
        ]
        self._leads = False

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors:
                tasks.create_task(reflector.run())
            tasks.create_task(self._lead())
            await self._certificate.run()

    async def _lead(self) -> None:
        await self._leading()
        self._leads = True
        self._certificate.look()

    def problems(self) -> Iterator[str]:
        """Returns why the API server cannot call this process yet; nothing if it can."""
        because = f": {self._certificate.problem}" if self._certificate.problem else ""
        shown = self._certificate.shown
        if shown is None:
            yield f"webhooks: no certificate yet{because}"
        elif shown.ends <= self._clock.now():
            yield f"webhooks: the certificate has expired{because}"
        elif not all(one is not None and trusting(one, shown) for one in self._configurations()):
            yield f"webhooks: the webhook configurations do not trust this process yet{because}"

    def _configurations(self) -> list[Obj | None]:
        return [self._stores[resource].get(Key("", name)) for resource, name in self._names]

    def _present(self, pair: Pair) -> None:
        self._show(pair)
        self._metrics.set(WEBHOOK_CERTIFICATE_END_SECONDS, pair.ends.timestamp())

    async def _register(self, bundle: bytes) -> None:
        """Creates and corrects the configurations.  Raises KubeErrors: also for what is still missing."""
        unread = [reflector for reflector in self._reflectors if not reflector.store.synced]
        if unread:
            # Their next state causes another look.
            if problems := "; ".join(str(one.error) for one in unread if one.error is not None):
                raise KubeError(problems)
            return
        bodies = configurations(self._webhooks, self._target, owner=self._owner, bundle=bundle)
        errors: list[KubeError] = []
        for (resource, name), body in bodies.items():
            try:
                await self._keep(resource, name, body)
            except KubeError as error:  # one that is refused must not keep us from the others
                errors.append(error)
        if errors:
            raise next((error for error in errors if not isinstance(error, ConflictError)), errors[0])

    async def _keep(self, resource: Resource, name: str, body: Obj) -> None:
        existing = self._stores[resource].get(Key("", name))
        if existing is None and not self._leads:
            raise KubeError(f"{resource.kind} {name} is not there yet; the leader makes it")
        if existing is None:
            await self._create(resource, name, body)
        elif patch := correction(existing, body, whole=self._leads):
            self._stores[resource].assume(await self._api.patch(resource, Key("", name), patch))

    async def _create(self, resource: Resource, name: str, body: Obj) -> None:
        try:
            self._stores[resource].assume(await self._api.create(resource, body))
        except AlreadyExistsError:
            found = await self._api.get(resource, Key("", name))
            labels = found["metadata"].get("labels") or {}
            if labels.get(LABEL) == self._owner:
                raise ConflictError(f"{name} is there, the watch does not show it yet") from None
            whose = f"of the operator in {labels[LABEL]}" if LABEL in labels else "not ours"
            raise KubeError(
                f"{resource.kind} {name} is {whose}: delete it, with what serves it, to use this one"
            ) from None
