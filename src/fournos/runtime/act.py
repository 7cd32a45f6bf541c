"""Carries out a decision's steps, in order, up to the first that fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fournos.kube.api import Api
from fournos.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    GoneError,
    InvalidError,
    KubeError,
    NoSuchResourceError,
    NotFoundError,
    NotLeaderError,
    ServerError,
    TransientError,
)
from fournos.kube.kinds import SECRET
from fournos.kube.patches import merge_patch
from fournos.kube.resource import (
    Key,
    Obj,
    Resource,
    controller_of,
    is_terminating,
    key_of,
    owner_uids,
    uid_of,
)
from fournos.runtime.controller import Caches, Executor
from fournos.runtime.decision import StepFailure
from fournos.runtime.fetch_facts import public_annotations
from fournos.runtime.steps import CopySecret, Create, Custom, Delete, NameTaken, Patch, Step

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A name is taken by something that is about to go; its deletion event, or backoff, tries again."""

    step: Step
    reason: str


@dataclass(frozen=True, slots=True)
class Acted:
    done: tuple[tuple[Step, Obj | None], ...]
    """The steps that succeeded, with the API server's answer if it is an object."""
    stopped: StepFailure | Waiting | None = None
    retry_after: float = 0.0
    """Seconds the API server asked us to stay away."""
    news: bool = False
    """An answer changed a cache.  Its watch event is an echo that wakes nobody: the key has to run again."""


class _WaitError(Exception):
    pass


class _ForeignError(Exception):
    pass


class _NotAllowedError(Exception):
    pass


_LATELY: Final = 60.0
"""Seconds after which a deletion is sent again: its watch event should have come long since."""


class StepExecutor:
    """Carries out the steps of all systems of a process at one API server."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._deleted: dict[tuple[str, str, int | None], float] = {}
        """Deletions accepted lately: UID, propagation, grace → when, by the loop's clock."""
        self._reads: dict[Key, asyncio.Task[Obj]] = {}
        """Secrets that are being read."""

    async def act(
        self,
        steps: Iterable[Step],
        caches: Caches,
        *,
        failures: int = 0,
        executors: Mapping[type[Custom], Executor] | None = None,
    ) -> Acted:
        """Answers go into the caches.  `failures`: how many passes of the key have failed before this one.

        Raises ConflictError (something we patch has changed: observe again) and NotLeaderError.
        """
        done: list[tuple[Step, Obj | None]] = []
        news = False
        for step in steps:
            try:
                answer, fresh = await self._carry_out(step, caches, executors or {})
            except (ConflictError, NotLeaderError):
                raise
            except _WaitError as error:
                return Acted(tuple(done), Waiting(step, str(error)), news=news)
            except (_ForeignError, _NotAllowedError) as error:
                word = "ForeignObject" if isinstance(error, _ForeignError) else "NotAllowed"
                failure = StepFailure(step, word, str(error), transient=False, count=failures + 1)
                return Acted(tuple(done), failure, news=news)
            except KubeError as error:
                failure = StepFailure(
                    step,
                    type(error).__name__,
                    _message(step, error),
                    transient=isinstance(error, TransientError | GoneError),
                    count=failures + 1,
                    reason=error.reason,
                )
                retry_after = error.retry_after if isinstance(error, ServerError) else None
                return Acted(tuple(done), failure, retry_after or 0.0, news=news)
            done.append((step, answer))
            news = news or fresh
        return Acted(tuple(done), news=news)

    async def _carry_out(
        self, step: Step, caches: Caches, executors: Mapping[type[Custom], Executor]
    ) -> tuple[Obj | None, bool]:
        """The API server's answer, and whether it changed a cache."""
        match step:
            case Create():
                answer = await self._create(step, caches)
            case Patch():
                answer = await self.api.patch(
                    step.resource, step.key, step.body, subresource=step.subresource
                )
            case Delete():
                await self._delete(step)
                return None, False
            case Custom():
                await executors[type(step)](step, self.api)
                return None, True  # what it changed is for the next observation
            case CopySecret():
                copy = await self._copy_secret(step, caches)
                return None, caches.assume(SECRET, copy)  # the answer holds the secret: it is not kept
        return answer, caches.assume(step.resource, answer)

    async def _create(self, step: Create, caches: Caches) -> Obj:
        try:
            return await self.api.create(step.resource, step.body)
        except AlreadyExistsError:
            if step.name_taken is not None:
                return await self._judged(step, step.name_taken)
            return await _ours(step.resource, step.body, self.api, caches, own_label=step.own_label)

    async def _judged(self, step: Create, name_taken: Callable[[Create, Obj], NameTaken | None]) -> Obj:
        """The live object that has the name, if the step's own rule takes it for the one to be created."""
        key = key_of(step.body)
        try:
            live = await self.api.get(step.resource, key)
        except NotFoundError:
            raise _WaitError(f"{step.resource.kind} {key} was there and is gone") from None
        taken = name_taken(step, live)
        if taken is None:
            return live
        raise (_WaitError if taken.waits else _ForeignError)(taken.reason)

    def deleted_lately(self, uid: str) -> bool:
        """Whether a deletion of this object was accepted, and its watch event may still come."""
        found = self._deleted.get((uid, "Background", None))
        return found is not None and found > asyncio.get_running_loop().time() - _LATELY

    async def _delete(self, step: Delete) -> None:
        """Not again what was accepted a moment ago: under load a pass often comes before the watch event."""
        now = asyncio.get_running_loop().time()
        lately = self._deleted
        while lately and next(iter(lately.values())) <= now - _LATELY:
            del lately[next(iter(lately))]
        what = (step.uid, step.propagation, step.grace_seconds)
        if what not in lately:
            await _send_delete(step, self.api)
            lately[what] = now
            if step.why:
                log.info("deleted %s %s: %s", step.resource.kind, step.key, step.why)

    async def _copy_secret(self, step: CopySecret, caches: Caches) -> Obj:
        source = await self._read_shared(step.source)
        if step.refuses and (refusal := step.refuses(step.source.name, public_annotations(source))):
            raise _NotAllowedError(refusal)
        data: Mapping[str, Any] = source.get("data") or {}
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": dict(step.metadata),
            "type": source.get("type", "Opaque"),
            "data": data,
        }
        try:
            copy = await self.api.create(SECRET, body)
        except AlreadyExistsError:
            copy = await _ours(SECRET, body, self.api, caches)
            if changed := merge_patch(copy.get("data") or {}, data):
                version = copy["metadata"]["resourceVersion"]
                patch = {"metadata": {"resourceVersion": version}, "data": changed}
                copy = await self.api.patch(SECRET, key_of(body), patch)
        return copy

    async def _read_shared(self, key: Key) -> Obj:
        """The Secret; reads of the same one at the same time are one request."""
        task = self._reads.get(key)
        if task is None:
            task = asyncio.ensure_future(self.api.get(SECRET, key))
            self._reads[key] = task
            task.add_done_callback(lambda _: self._reads.pop(key, None))
        return await asyncio.shield(task)  # one reader's end does not end the others'


def _message(step: Step, error: KubeError) -> str:
    if isinstance(step, CopySecret) and isinstance(error, InvalidError):
        # The API server may quote what it refuses, and that could be the secret.
        name = f"{step.metadata.get('namespace')}/{step.metadata.get('name')}"
        return f"the API server refused the copy of Secret {step.source} as {name}"
    return error.message


async def _send_delete(step: Delete, api: Api) -> None:
    try:
        await api.delete(
            step.resource,
            step.key,
            uid=step.uid,
            propagation=step.propagation,
            grace_seconds=step.grace_seconds,
        )
    except (NotFoundError, NoSuchResourceError):
        return
    except ConflictError:
        # Either another object has the name now, then ours is gone; or ours was changed meanwhile.
        try:
            live = await api.get(step.resource, step.key)
        except NotFoundError:
            return
        if uid_of(live) == step.uid:
            raise


async def _ours(resource: Resource, body: Obj, api: Api, caches: Caches, *, own_label: str = "") -> Obj:
    """The live object that has the name of `body`, if it is our controller's or carries our label.

    Raises _WaitError if the name will be free soon, _ForeignError if it will not.
    """
    key = key_of(body)
    try:
        live = await api.get(resource, key)
    except NotFoundError:
        raise _WaitError(f"{resource.kind} {key} was there and is gone") from None
    if is_terminating(live):
        caches.assume(resource, live)
        raise _WaitError(f"{resource.kind} {key} is being deleted")
    owner, wanted = controller_of(live), controller_of(body)
    if owner is not None and wanted is not None and owner["uid"] == wanted["uid"]:
        return live
    if owner is None and wanted is not None and wanted["uid"] in owner_uids(live):
        return live  # an owner that is no controller: copies that the published operator made
    if owner is None and own_label and _label(live, own_label) == _label(body, own_label):
        return live
    if owner is not None and await _is_gone(owner, key.namespace, api, caches):
        raise _WaitError(f"{resource.kind} {key} belongs to a {owner['kind']} that is gone")
    whose = f"{owner['kind']} {owner['name']}" if owner is not None else "no controller"
    raise _ForeignError(f"{resource.kind} {key} exists already and belongs to {whose}")


def _label(obj: Obj, name: str) -> str | None:
    found = (obj["metadata"].get("labels") or {}).get(name)
    return None if found is None else str(found)


async def _is_gone(owner: Obj, namespace: str, api: Api, caches: Caches) -> bool:
    """Whether the garbage collector is going to remove what this owner controls."""
    resource = caches.resource_of(str(owner.get("apiVersion", "")), str(owner.get("kind", "")))
    if resource is None:
        return False  # a kind that we do not know: somebody else's
    try:
        live = await api.get(resource, Key(namespace if resource.namespaced else "", str(owner["name"])))
    except NotFoundError:
        return True
    return uid_of(live) != str(owner["uid"])
