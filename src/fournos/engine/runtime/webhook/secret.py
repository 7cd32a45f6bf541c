"""The Secret of the certificates: read, rotated, written.

It is read on demand and not watched, so that the operator needs no right to list Secrets.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from datetime import datetime

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from fournos.engine.kube.kinds import SECRET
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.webhook.certificates import Kept, Terms, make_pair, read, rotated, write

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
        bundled: bool = False,
    ) -> None:
        """`bundled`: the Secret also holds BUNDLE."""
        self._api = api
        self._key = key
        self._hosts = hosts
        self._terms = terms
        self._clock = clock
        self._bundled = bundled

    async def rotated(self, carried_since: Callable[[Kept, datetime], datetime | None]) -> Kept:
        """Rotates what is due and returns the content of the Secret.

        `carried_since` is that of `rotated`, called with the content before.  Raises ConflictError if another
        replica wrote first, and other KubeErrors.
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
            carried_since=carried_since(before, now),
            make=lambda: make_pair(self._hosts, now, self._terms.lifetime),
        )
        if after != before:
            await self._store(secret, after)
        return after

    async def _store(self, secret: Obj | None, kept: Kept) -> None:
        data = write(kept)
        if self._bundled:
            data[BUNDLE] = base64.b64encode(kept.bundle).decode()
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
