"""The Secret of the certificates: read, rotated, written.

It is read on demand and not watched, so that the operator needs no right to list Secrets.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from fournos.engine.kube.kinds import SECRET
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.webhook.certificates import (
    Kept,
    Terms,
    make_pair,
    next_look,
    read,
    rotated,
    write,
)

BUNDLE = "ca-bundle.crt"
"""The data key with all authorities that are trusted now, for clients that read the Secret."""


class CertificateSecret:
    """The certificates in a Secret.

    The first replica to find a certificate due makes the next one.  If two do so at once, the resourceVersion
    lets only one write succeed.
    """

    def __init__(
        self,
        api: Api,
        key: Key,
        *,
        hosts: Sequence[str],
        terms: Terms,
        clock: Clock,
        carried: Callable[[bytes], bool] = lambda authority: True,
        bundled: bool = False,
    ) -> None:
        """`carried(authority)` returns True once all clients have the authority, besides those that read the
        Secret.  `bundled`: the Secret also holds BUNDLE.
        """
        self._api = api
        self._key = key
        self._hosts = hosts
        self._terms = terms
        self._clock = clock
        self._is_carried = carried
        self._bundled = bundled
        self._carried: tuple[bytes, datetime] | None = None
        """The next authority, and the time since which this process has seen that clients have it."""

    async def rotated(self) -> Kept:
        """Rotates what is due and returns the content of the Secret.

        Raises ConflictError if another replica wrote first, and other KubeErrors.
        """
        try:
            secret: Obj | None = await self._api.get(SECRET, self._key)
        except NotFoundError:
            secret = None
        before = read((secret or {}).get("data") or {})
        now = self._clock.now()
        after = rotated(
            before,
            now,
            hosts=self._hosts,
            terms=self._terms,
            carried_since=self._carried_since(before, now),
            make=lambda: make_pair(self._hosts, now, self._terms.lifetime),
        )
        if after != before:
            await self._store(secret, after)
        return after

    def next_look(self, certificates: Kept) -> timedelta:
        """Returns the time after which this content changes without any other change."""
        now = self._clock.now()
        return (
            next_look(certificates, terms=self._terms, carried_since=self._carried_since(certificates, now))
            - now
        )

    def _carried_since(self, certificates: Kept, now: datetime) -> datetime | None:
        if certificates.next is None or not self._is_carried(certificates.next.authority):
            self._carried = None
            return None
        if self._carried is None or self._carried[0] != certificates.next.authority:
            self._carried = (certificates.next.authority, now)
        return self._carried[1]

    async def _store(self, secret: Obj | None, certificates: Kept) -> None:
        data = write(certificates)
        if self._bundled:
            data[BUNDLE] = base64.b64encode(certificates.bundle).decode()
        if secret is not None:
            version = {"resourceVersion": secret["metadata"]["resourceVersion"]}
            await self._api.patch(SECRET, self._key, {"metadata": version, "data": data})
            return
        body = {
            "apiVersion": SECRET.api_version,
            "kind": SECRET.kind,
            "metadata": {"namespace": self._key.namespace, "name": self._key.name},
            "type": "Opaque",
            "data": {key: value for key, value in data.items() if value is not None},
        }
        try:
            await self._api.create(SECRET, body)
        except AlreadyExistsError as error:
            raise ConflictError(error.message) from error
