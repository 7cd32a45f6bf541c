"""Keeps the serving certificate and the webhook configurations up to date, on every replica.

The Secret is read at start, when a webhook configuration changes and when a certificate is due.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import timedelta
from typing import Final

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import AlreadyExistsError, ConflictError, KubeError
from fournos.engine.kube.limiter import Backoff
from fournos.engine.kube.reflector import Reflector
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.kube.store import Store
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.metrics_table import WEBHOOK_CERTIFICATE_END_SECONDS
from fournos.engine.runtime.webhook.accepted_paths import segment_of, segments_in
from fournos.engine.runtime.webhook.certificates import Kept, Pair, Terms
from fournos.engine.runtime.webhook.registration import LABEL, Target, carries, configurations, correction
from fournos.engine.runtime.webhook.secret import CertificateSecret
from fournos.engine.runtime.webhook.types import Webhook

log = logging.getLogger(__name__)

_LONGEST_SLEEP: Final = 600.0
"""Maximum seconds between two looks at the wall clock, because a timer does not count suspended time."""


class WebhookCertRotator:
    """Rotates the certificate and corrects the webhook configurations.  Runs on every replica."""

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
        expect: Callable[[frozenset[str]], None],
        terms: Terms | None = None,
    ) -> None:
        """`leading()` returns once this process is the leader.

        `show(pair)` is called with each certificate to serve from now on.  `expect(segments)` is called with
        the path segments that API servers may use in requests.
        """
        self._api = api
        self._webhooks = webhooks
        self._target = target
        self._secret = secret
        self._clock = clock
        self._metrics = metrics
        self._leading = leading
        self._show = show
        self._expect = expect
        self._certificates = CertificateSecret(
            api,
            secret,
            hosts=target.hosts,
            terms=terms or Terms(),
            clock=clock,
            carried=self._carries,
        )
        self._wake = asyncio.Event()
        self._names = frozenset(configurations(webhooks, target, owner=secret.namespace))
        self._stores = {resource: Store() for resource, _ in self._names}
        self._reflectors = [
            Reflector(
                api,
                resource,
                store,
                selector=f"{LABEL}={secret.namespace}",
                on_change=lambda *_: self._wake.set(),
                on_state=self._wake.set,
            )
            for resource, store in self._stores.items()
        ]
        self._leads = False
        self._shown: Pair | None = None
        self._problem = ""

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors:
                tasks.create_task(reflector.run())
            tasks.create_task(self._lead())
            await self._keep()

    async def _lead(self) -> None:
        await self._leading()
        self._leads = True
        self._wake.set()

    def problems(self) -> Iterator[str]:
        """Returns why the API server cannot call this process yet; nothing if it can."""
        if self._shown is None:
            yield f"webhooks: no certificate yet{self._because()}"
        elif self._shown.ends <= self._clock.now():
            yield f"webhooks: the certificate has expired{self._because()}"
        elif not self._carries(self._shown.authority):
            yield f"webhooks: the webhook configurations do not trust this process yet{self._because()}"

    def _because(self) -> str:
        return f": {self._problem}" if self._problem else ""

    # --- the loop -------------------------------------------------------------------------------

    async def _keep(self) -> None:
        backoff = Backoff()
        while True:
            self._wake.clear()
            try:
                wait = await self._pass()
                backoff.reset()
            except ConflictError:
                wait = backoff.next()
            except KubeError as error:
                wait = backoff.next()
                self._record(f"{type(error).__name__}: {error.message}")
            until = self._clock.now() + timedelta(seconds=wait)
            while not self._wake.is_set() and (left := (until - self._clock.now()).total_seconds()) > 0:
                try:
                    async with asyncio.timeout(min(left, _LONGEST_SLEEP)):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    def _record(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning("webhooks: %s", problem)
        self._problem = problem

    async def _pass(self) -> float:
        """Checks Secret and configurations once; returns the seconds until time alone changes them."""
        certificates = await self._certificates.rotated()
        assert certificates.current is not None
        self._expect(self._segments(certificates))
        try:
            self._record(await self._register(certificates))
        finally:
            # After the registration if possible: a client must trust the authority before its certificate.
            self._present(certificates.current)
        return self._certificates.next_look(certificates).total_seconds()

    def _present(self, pair: Pair) -> None:
        if pair == self._shown:
            return
        self._show(pair)
        self._shown = pair
        self._metrics.set(WEBHOOK_CERTIFICATE_END_SECONDS, pair.ends.timestamp())
        log.info("webhooks: serving with a certificate that ends %s", pair.ends.isoformat())

    def _segments(self, certificates: Kept) -> frozenset[str]:
        """Returns the path segments of our certificates, the next one included, and of the live
        configurations.

        Another version may have written the configurations, or they were just applied again.
        """
        own = {segment_of(pair) for pair in (certificates.current, certificates.next) if pair is not None}
        there = (self._stores[resource].get(Key("", name)) for resource, name in self._names)
        return frozenset(own.union(*(segments_in(one, self._webhooks) for one in there if one is not None)))

    # --- the configurations -------------------------------------------------------------------------

    async def _register(self, certificates: Kept) -> str:
        """Creates and corrects the configurations; returns what is still missing, "" if nothing is."""
        unread = [reflector for reflector in self._reflectors if not reflector.store.synced]
        if unread:
            return "; ".join(str(one.error) for one in unread if one.error is not None)
        assert certificates.current is not None
        bodies = configurations(
            self._webhooks,
            self._target,
            owner=self._secret.namespace,
            bundle=certificates.bundle,
            segment=segment_of(certificates.current),
        )
        for (resource, name), body in bodies.items():
            existing = self._stores[resource].get(Key("", name))
            if existing is None and not self._leads:
                return f"{resource.kind} {name} is not there yet; the leader makes it"
            if existing is None:
                await self._create(resource, name, body)
            elif patch := correction(existing, body, whole=self._leads):
                answer = await self._api.patch(resource, Key("", name), patch)
                self._stores[resource].assume(answer)
        return ""

    async def _create(self, resource: Resource, name: str, body: Obj) -> None:
        try:
            self._stores[resource].assume(await self._api.create(resource, body))
        except AlreadyExistsError:
            found = await self._api.get(resource, Key("", name))
            labels = found["metadata"].get("labels") or {}
            if labels.get(LABEL) == self._secret.namespace:
                raise ConflictError(f"{name} is there, the watch does not show it yet") from None
            whose = f"of the operator in {labels[LABEL]}" if LABEL in labels else "not ours"
            raise KubeError(
                f"{resource.kind} {name} is {whose}: delete it, with what serves it, to use this one"
            ) from None

    def _carries(self, authority: bytes) -> bool:
        """True if all configurations contain the authority."""
        found = [self._stores[resource].get(Key("", name)) for resource, name in self._names]
        return all(one is not None and carries(one, authority) for one in found)
