"""Renewal of a worker's token: requests it from the worker and writes it into the Secret here."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from fournos.engine.kube.api import Api
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.errors import ConflictError, CredentialsError, InvalidError, KubeError, NotFoundError
from fournos.engine.kube.probe import ClusterApi
from fournos.engine.kube.resource import SECRET, Key, Resource
from fournos.engine.kube.untrusted_kubeconfig import check
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Executor
from fournos.engine.runtime.steps import Custom
from fournos.systems.multikueue.kubeconfig import Token, content_of, server_in, token_in, token_of, with_token
from fournos.systems.multikueue.names import KUBECONFIG

log = logging.getLogger(__name__)

TIMEOUT: Final = 10.0
_MAX_BYTES: Final = 256 * 1024
"""The maximum size of a worker's answer, in bytes."""
_SHORTEST: Final = timedelta(minutes=10)
"""The minimum life of a token that Kubernetes issues."""
_SOONEST: Final = timedelta(minutes=1)
"""The minimum time until a new token is due again, whatever the worker answers."""
_ANSWERS: Final = {
    401: "refuses the credentials (401): put a kubeconfig with valid ones in place",
    403: "does not allow create on serviceaccounts/token of {account} (403): "
    "apply deploy/multikueue/worker/identity.yaml there",
    404: "has no ServiceAccount {account} (404): apply deploy/multikueue/worker/identity.yaml there",
}

Dial: TypeAlias = Callable[[Credentials], ClusterApi]


@dataclass(frozen=True, slots=True)
class Renew(Custom):
    """Replaces the token in a Secret's kubeconfig, if the Secret still has this version.

    The request to the worker uses the kubeconfig in the Secret `authority`.
    """

    secret: Key
    authority: Key
    version: str


def dial_over_http(credentials: Credentials) -> ClusterApi:
    return Client(credentials, name="worker", timeout=TIMEOUT, max_bytes=_MAX_BYTES)


def executors(clock: Clock, dial: Dial) -> Mapping[type[Custom], Executor]:
    """Returns the executor of Renew; `dial` opens a client with a kubeconfig's credentials."""

    async def renew(step: Renew, api: Api) -> None:
        secret = await api.get(SECRET, step.secret)
        if secret["metadata"]["resourceVersion"] != step.version:
            raise ConflictError(f"Secret {step.secret} has changed")
        content = content_of(secret)
        authority = content if step.authority == step.secret else await _other(api, step, content)
        checked = check(authority, now=clock.now())
        text = await _request_token(dial, checked.credentials, token_in(content))
        accepted = _accept(text, token_in(content), now=clock.now())
        new = with_token(content, text)
        check(new, now=clock.now())
        # The version is a precondition: the Secret may change during the request to the worker.
        body = {
            "metadata": {"resourceVersion": step.version},
            "data": {KUBECONFIG: base64.b64encode(new).decode()},
        }
        try:
            await api.patch(SECRET, step.secret, body)
        except InvalidError:
            # The API server may quote the refused content, which could be the token.
            raise CredentialsError("the API server refuses the Secret with its new token") from None
        log.info("Secret %s has a new token until %s", step.secret, accepted.ends)

    return {Renew: renew}


async def _other(api: Api, step: Renew, content: bytes) -> bytes:
    """Returns the worker's own kubeconfig.

    Raises CredentialsError unless it has the same server: a token must not be sent to another server.
    """
    try:
        authority = content_of(await api.get(SECRET, step.authority))
    except NotFoundError:
        raise CredentialsError(f"there is no Secret {step.authority} to renew its token with") from None
    if server_in(authority) != server_in(content):
        raise CredentialsError(f"its server is not that of Secret {step.authority}")
    return authority


async def _request_token(dial: Dial, credentials: Credentials, held: Token) -> str:
    """Requests a new token from the worker.

    Every failure is raised as a KubeError that is not transient, because the manager cluster is not affected.
    """
    account = held.account
    resource = Resource("", "v1", "TokenRequest", f"serviceaccounts/{account.name}/token")
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"namespace": account.namespace},
        "spec": {"expirationSeconds": int(max(held.life, _SHORTEST).total_seconds())},
    }
    worker = dial(credentials)
    try:
        async with asyncio.timeout(TIMEOUT):
            answer = await worker.create(resource, body)
    except (KubeError, TimeoutError) as error:
        status = error.status if isinstance(error, KubeError) else 0
        what = _ANSWERS.get(status, f"gives no answer to go by ({status or 'no connection'})")
        raise KubeError(f"{credentials.server} {what.format(account=account)}") from None
    finally:
        await worker.close()
    status_ = answer.get("status")
    token = status_.get("token") if isinstance(status_, Mapping) else None
    if not isinstance(token, str):
        raise KubeError(f"{credentials.server} answers without a token")
    return token


def _accept(text: str, held: Token, *, now: datetime) -> Token:
    """Validates the worker's answer.

    Raises CredentialsError for another ServiceAccount or too short a life.
    """
    new = token_of(text)
    if new.account != held.account:
        raise CredentialsError(f"the answer is a token of another ServiceAccount than {held.account}")
    if new.due < now + _SOONEST:
        raise CredentialsError(
            "the new token would have to be replaced at once: is the worker's clock right, and may tokens "
            "live for ten minutes there?"
        )
    return new
