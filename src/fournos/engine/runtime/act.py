"""Executes the steps of a decision in order and stops at the first that fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import (
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
from fournos.engine.kube.resource import (
    SECRET,
    Key,
    Obj,
    Resource,
    controller_of,
    is_terminating,
    key_of,
    merge_patch,
    owner_uids,
    uid_of,
)
from fournos.engine.runtime.controller import Caches, Executor
from fournos.engine.runtime.decision import (
    CopySecret,
    Create,
    Custom,
    Delete,
    NameTaken,
    Patch,
    Step,
    StepFailure,
)
from fournos.engine.runtime.fetch_facts import public_annotations

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NameWait:
    """The name of a step's object is taken by an object that will soon be gone.

    The deletion event of that object, or the backoff, runs the key again.
    """

    step: Step
    reason: str


class CacheChange(IntEnum):
    """What the API server's responses to steps have changed in the caches; the greater includes the lesser.

    The watch event of such a change enqueues no key, so the key must run again.
    """

    NONE = 0
    OWN = 1
    """What this pass wrote."""
    UNFORESEEN = 2
    """What this pass did not write, such as an object that existed."""


@dataclass(frozen=True, slots=True)
class Acted:
    """The result of executing steps."""

    done: tuple[tuple[Step, Obj | None], ...]
    """The steps that succeeded, each with the API server's response if that is an object."""
    cache_change: CacheChange
    stopped: StepFailure | NameWait | None = None
    retry_after: float = 0.0
    """Seconds to wait as the API server asked (Retry-After); 0.0 without such a request."""


class _WaitError(Exception):
    """The name of a step's object is used by another object that is being deleted."""


class _ForeignError(Exception):
    """The name of a step's object is used by an object that this operator does not own."""


class _NotAllowedError(Exception):
    """The source Secret does not allow this copy."""


_RECENT: Final = 60.0
"""Seconds after which a deletion is sent again.  Its watch event should have arrived long before."""


class StepExecutor:
    """Executes the steps of all controllers of a process against one API server."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._deleted: dict[tuple[str, str, int | None], float] = {}
        """Recently accepted deletions: (UID, propagation, grace) → time by the event loop's clock."""
        self._reads: dict[Key, asyncio.Task[Obj]] = {}
        """Secrets that are being read, each with its pending request."""

    async def act(
        self,
        steps: Iterable[Step],
        caches: Caches,
        *,
        failures: int = 0,
        executors: Mapping[type[Custom], Executor] | None = None,
    ) -> Acted:
        """Executes the steps and puts the API server's responses into the caches.

        `failures`: the number of failed passes of the key in a row before this pass.
        Raises ConflictError (a patched object has changed: observe it again) and NotLeaderError.
        """
        done: list[tuple[Step, Obj | None]] = []
        cache_change = CacheChange.NONE
        for step in steps:
            try:
                answer, change = await self._carry_out(step, caches, executors or {})
            except (ConflictError, NotLeaderError):
                raise
            except _WaitError as error:
                return Acted(tuple(done), cache_change, NameWait(step, str(error)))
            except (_ForeignError, _NotAllowedError) as error:
                word = "ForeignObject" if isinstance(error, _ForeignError) else "NotAllowed"
                failure = StepFailure(step, word, str(error), transient=False, count=failures + 1)
                return Acted(tuple(done), cache_change, failure)
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
                return Acted(tuple(done), cache_change, failure, retry_after or 0.0)
            done.append((step, answer))
            cache_change = max(cache_change, change)
        return Acted(tuple(done), cache_change)

    async def _carry_out(
        self, step: Step, caches: Caches, executors: Mapping[type[Custom], Executor]
    ) -> tuple[Obj | None, CacheChange]:
        """Returns the API server's response, and what that changed in the caches."""
        match step:
            case Create():
                answer, own = await self._create(step, caches)
            case Patch():
                # Without the precondition the response may also show another client's change.
                own = "resourceVersion" in (step.body.get("metadata") or {})
                answer = await self.api.patch(
                    step.resource, step.key, step.body, subresource=step.subresource
                )
            case Delete():
                await self._delete(step)
                return None, CacheChange.NONE
            case Custom():
                await executors[type(step)](step, self.api)
                # What the step changed is read by the next observation.
                return None, CacheChange.OWN if step.foreseen else CacheChange.UNFORESEEN
            case CopySecret():
                copy = await self._copy_secret(step, caches)
                changed = caches.assume(SECRET, copy)
                # The response holds the secret: not kept.
                return None, CacheChange.UNFORESEEN if changed else CacheChange.NONE
        if not caches.assume(step.resource, answer):
            return answer, CacheChange.NONE
        return answer, CacheChange.OWN if own else CacheChange.UNFORESEEN

    async def _create(self, step: Create, caches: Caches) -> tuple[Obj, bool]:
        """Returns the object, and True if this request created it."""
        try:
            return await self.api.create(step.resource, step.body), True
        except AlreadyExistsError:
            # The object may be our own: from a pass that crashed, or from a request with a lost response.
            if step.name_taken is not None:
                return await self._created(step, step.name_taken), False
            found = await _ours(step.resource, step.body, self.api, caches, own_label=step.own_label)
            return found, False

    async def _created(self, step: Create, name_taken: Callable[[Create, Obj], NameTaken | None]) -> Obj:
        """Returns the live object if `name_taken` accepts it; else raises _WaitError or _ForeignError."""
        key = key_of(step.body)
        try:
            live = await self.api.get(step.resource, key)
        except NotFoundError:
            raise _WaitError(f"{step.resource.kind} {key} was there and is gone") from None
        taken = name_taken(step, live)
        if taken is None:
            return live
        raise (_WaitError if taken.waits else _ForeignError)(taken.reason)

    def deleted_recently(self, uid: str) -> bool:
        """True if a deletion of this object was accepted and its watch event may still be missing."""
        found = self._deleted.get((uid, "Background", None))
        return found is not None and found > asyncio.get_running_loop().time() - _RECENT

    async def _delete(self, step: Delete) -> None:
        """Deletes the object, unless the same deletion was accepted within `_RECENT` seconds.

        Under load a pass often runs before the watch event of its own deletion, and would delete again.
        """
        now = asyncio.get_running_loop().time()
        recent = self._deleted
        while recent and next(iter(recent.values())) <= now - _RECENT:
            del recent[next(iter(recent))]
        what = (step.uid, step.propagation, step.grace_seconds)
        if what not in recent:
            await _send_delete(step, self.api)
            recent[what] = now
            if step.why:
                log.info("deleted %s %s: %s", step.resource.kind, step.key, step.why)

    async def _copy_secret(self, step: CopySecret, caches: Caches) -> Obj:
        """Creates the copy, or updates the data of a copy that is ours."""
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
                # The precondition: only the version that was found to be ours is changed.
                version = copy["metadata"]["resourceVersion"]
                patch = {"metadata": {"resourceVersion": version}, "data": changed}
                copy = await self.api.patch(SECRET, key_of(body), patch)
        return copy

    async def _read_shared(self, key: Key) -> Obj:
        """Returns the Secret.  Concurrent reads of one Secret share one request."""
        task = self._reads.get(key)
        if task is None:
            task = asyncio.ensure_future(self.api.get(SECRET, key))
            self._reads[key] = task
            task.add_done_callback(lambda _: self._reads.pop(key, None))
        return await asyncio.shield(task)  # cancelling one reader must not cancel the others' request


def _message(step: Step, error: KubeError) -> str:
    if isinstance(step, CopySecret) and isinstance(error, InvalidError):
        # The API server may quote the rejected value in its message, and the value may be the secret.
        name = f"{step.metadata.get('namespace')}/{step.metadata.get('name')}"
        return f"the API server refused the copy of Secret {step.source} as {name}"
    return error.message


async def _send_delete(step: Delete, api: Api) -> None:
    """Deletes exactly the object with the step's UID; an object that is gone is a success."""
    try:
        await api.delete(
            step.resource,
            step.key,
            uid=step.uid,  # the precondition: never a new object with the old name
            propagation=step.propagation,
            grace_seconds=step.grace_seconds,
        )
    except (NotFoundError, NoSuchResourceError):
        return
    except ConflictError:
        # A conflict has two causes.  Another object has the name now, so ours is gone and the step is done;
        # or ours was changed since, and the conflict is real.  Only a live read can distinguish them.
        try:
            live = await api.get(step.resource, step.key)
        except NotFoundError:
            return
        if uid_of(live) == step.uid:
            raise


async def _ours(resource: Resource, body: Obj, api: Api, caches: Caches, *, own_label: str = "") -> Obj:
    """Returns the live object with the name of `body` if our controller owns it or if it has our label.

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
    owner, own_controller = controller_of(live), controller_of(body)
    if owner is not None and own_controller is not None and owner["uid"] == own_controller["uid"]:
        return live
    if owner is None and own_controller is not None and own_controller["uid"] in owner_uids(live):
        return live  # the published operator's copies have an owner that is not their controller
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
    """True if this owner no longer exists, so that the garbage collector will delete what it controls."""
    resource = caches.resource_of(str(owner.get("apiVersion", "")), str(owner.get("kind", "")))
    if resource is None:
        return False  # an unknown kind: the object belongs to another operator
    try:
        live = await api.get(resource, Key(namespace if resource.namespaced else "", str(owner["name"])))
    except NotFoundError:
        return True
    return uid_of(live) != str(owner["uid"])
