"""The controller that replaces the tokens in workers' kubeconfigs before they expire.

It handles Secrets in Kueue's namespace with the label `RENEW`, whichever adapter uses them.  The
request to the worker uses the kubeconfig itself.  For a kubeconfig that only reads logs (`LOGS_OF`) it
uses the worker's own, so that a reader of logs has no permission to request tokens.  Only the token's
times are kept of a Secret's content.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from fournos.engine.kube.errors import CredentialsError
from fournos.engine.kube.resource import SECRET, Key, Obj, is_terminating, key_of
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Caches, Controller, Watch
from fournos.engine.runtime.decision import Decision, EventRecord, Facts
from fournos.engine.runtime.projection import pick
from fournos.systems.multikueue import names
from fournos.systems.multikueue.kubeconfig import Token, content_of, token_in
from fournos.systems.multikueue.renew import Dial, Renew, dial_over_http, executors
from fournos.systems.multikueue.settings import MultiKueueSettings

AGAIN: Final = timedelta(minutes=1)
"""The retry interval after a failed renewal; half of the token's life is left for retries."""
MESSAGE_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class Held:
    """A labelled Secret, without its content."""

    secret: Obj
    token: Token | None
    problem: str
    """Why the Secret has no token that can be replaced."""


def decide(observed: Held, facts: Facts, now: datetime) -> Decision:
    """Returns the renewal if it is due, else the time at which it is.  Pure."""
    failure = facts.failure
    if failure is not None:
        if failure.transient:
            return Decision(retry=True)
        return Decision(events=(_not_renewed(failure.message),), wake_at=now + AGAIN)
    if is_terminating(observed.secret):
        return Decision()
    if observed.token is None:
        # Only a change of the Secret can help, and its watch event enqueues it again.
        return Decision(events=(_not_renewed(observed.problem),))
    if now < observed.token.due:
        return Decision(wake_at=observed.token.due)
    key = key_of(observed.secret)
    return Decision(
        (Renew(key, _kubeconfig_for(observed.secret), observed.secret["metadata"]["resourceVersion"]),)
    )


def _not_renewed(text: str) -> EventRecord:
    return EventRecord("Warning", "TokenNotRenewed", text[:MESSAGE_MAX])


def _kubeconfig_for(secret: Obj) -> Key:
    """Returns the key of the Secret whose kubeconfig may request the token."""
    key = key_of(secret)
    return Key(key.namespace, (secret["metadata"].get("labels") or {}).get(names.LOGS_OF) or key.name)


def tokens_controller(
    settings: MultiKueueSettings, clock: Clock, *, dial: Dial = dial_over_http
) -> Controller[Held]:
    """Returns the controller that reconciles the labelled Secrets."""

    def observe(caches: Caches, key: Key) -> Held | None:
        secret = caches[SECRET].get(key)
        return None if secret is None else Held(secret, secret["token"], secret["problem"])

    def wakes(secret: Obj, caches: Caches) -> Iterable[Key]:
        """Enqueues the Secret, and those that are renewed with its kubeconfig."""
        key = key_of(secret)
        return (key, *(key_of(one) for one in caches[SECRET] if _kubeconfig_for(one) == key))

    return Controller(
        name="multikueue-tokens",
        watches=(
            Watch(
                SECRET,
                namespace=settings.kueue_namespace,
                selector=f"{names.RENEW}=true",
                wakes=wakes,
                project=project,
            ),
        ),
        observe=observe,
        decide=decide,
        primary=lambda seen: seen.secret,
        executors=executors(clock, dial),
    )


def project(secret: Obj) -> Obj:
    """Keeps the metadata and the token's times; the content is never cached."""
    token, problem = None, ""
    try:
        token = token_in(content_of(secret))
    except CredentialsError as error:
        problem = error.message
    wanted = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp", "labels")
    meta: dict[str, Any] = pick(secret["metadata"], wanted)
    return {"metadata": meta, "token": token, "problem": problem}
