"""Creates the Secret with the CURVE certificate once. The certificate never passes through a decision."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import AlreadyExistsError, NotFoundError
from fournos.engine.kube.resource import SECRET, Key, Obj, controller_of, key_of
from fournos.engine.runtime.decision import Absent, Present, SecretShape, Unknown
from fournos.engine.runtime.steps import Custom
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.build import certificate_secret
from fournos.systems.miniclusters.context import Context
from fournos.systems.miniclusters.curve import KEY_BYTES, certificate
from fournos.systems.miniclusters.settings import MiniClusterSettings


@dataclass(frozen=True, slots=True)
class MakeCertificate(Custom):
    """Creates the certificate Secret of this MiniCluster. An existing Secret of this MiniCluster is kept."""

    minicluster: Obj


class Maker:
    """The executor of MakeCertificate."""

    def __init__(
        self, settings: MiniClusterSettings, *, random: Callable[[int], bytes] = secrets.token_bytes
    ) -> None:
        self._settings = settings
        self._random = random

    async def __call__(self, step: MakeCertificate, api: Api) -> None:
        """Creates the Secret.

        Raises AlreadyExistsError if the name belongs to another owner, and the API server's errors.
        """
        name = str(step.minicluster["metadata"]["name"])
        text = certificate(self._random(KEY_BYTES), host=names.lead(name))
        body: Any = certificate_secret(step.minicluster, self._settings, certificate=text)
        try:
            await api.create(SECRET, body)
        except AlreadyExistsError as error:
            # A second certificate would separate the brokers that run, so our own Secret is kept.
            try:
                live = await api.get(SECRET, key_of(body))
            except NotFoundError:
                raise error from None
            if (controller_of(live) or {}).get("uid") != step.minicluster["metadata"]["uid"]:
                raise


def lost(ctx: Context) -> bool | None:
    """Returns True if the API server confirms that the certificate is missing; None if that is unknown."""
    if ctx.part(SECRET, names.curve(ctx.name)) is not None:
        return False
    question = SecretShape(Key(ctx.namespace, names.curve(ctx.name)))
    answer = ctx.facts.require(question)
    if isinstance(answer, Unknown):
        return None
    if isinstance(answer, Absent):
        return True
    # Either the cache lags behind, or the name belongs to another owner. In the second case the creation
    # fails and reports it.
    assert isinstance(answer, Present)
    return str(ctx.minicluster["metadata"]["uid"]) not in answer.value.owner_uids
