"""The base classes of the handles of all kinds: one object, identified by its UID, as last read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from fournos.client.errors import (
    DeletedError,
    EndedError,
    FournosError,
    ObjectFailed,
    WaitTimeout,
    translated,
    typed,
)
from fournos.client.views import View
from fournos.engine.api.conditions import condition
from fournos.engine.kube.errors import ConflictError, InvalidError, NotFoundError
from fournos.engine.kube.resource import Obj, Resource, key_of, uid_of

if TYPE_CHECKING:
    from fournos.client.connection import ClientConnection

ENDED: Final = "ended"
CONDITION: Final = "condition="
PATIENCE: Final = 60.0
"""The default timeout, in seconds, of the methods that wait for a change to take effect."""
Seconds: TypeAlias = float | timedelta


_TRIES: Final = 5
"""Patches of an object that others change at the same time."""


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """A change of an object's phase, message or end."""

    phase: str
    message: str
    before: str | None = field(compare=False)
    """The phase of the previous event; None for the first event, which is the current state."""
    ended: bool
    raw: Obj = field(compare=False, repr=False)


class AsyncHandle(View):
    """The handle of one object, identified by its UID: never of another object of the same name."""

    _resource: Resource
    _noun: ClassVar[str]
    """The noun for the kind in messages, such as "job"."""
    _phases: ClassVar[tuple[str, ...]] = ()
    """The phases that can be waited for; empty if they are not known."""
    _ends: bool = True
    """False for a kind whose objects do not end."""

    def __init__(self, client: ClientConnection, raw: Obj) -> None:
        self._client = client
        self._raw = raw

    @property
    def raw(self) -> Obj:
        """The whole object as last read."""
        return self._raw

    @typed
    async def refresh(self) -> None:
        """Reads the object again.  Raises DeletedError if it was deleted."""
        try:
            self._take(await self._client.api.get(self._resource, key_of(self._raw)))
        except NotFoundError:
            raise self._deleted() from None

    async def watch(self) -> AsyncIterator[ObjectEvent]:
        """Yields the current state of the object, then every change until it ends.

        A broken watch is resumed.  Raises DeletedError.
        """
        before: ObjectEvent | None = None
        async with aclosing(self._changes()) as changes:
            async for _ in changes:
                event = self._event(before.phase if before else None)
                if event != before:
                    yield event
                    before = event
                if event.ended:
                    return

    async def wait(self, until: str = ENDED, *, timeout: Seconds | None = None) -> None:
        """Waits until the object has ended, or has reached `until`, and raises an error if it has failed.

        `until` is a phase, such as "Running", or "condition=TYPE" or "condition=TYPE=STATUS", such as
        "condition=Ready".  A job raises JobFailed or JobStopped, an object of another kind ObjectFailed, if
        it ended so without having reached `until`.  Raises WaitTimeout after `timeout` (seconds or
        timedelta); the object is not changed by that.
        """
        try:
            await self.settle(until, timeout=timeout)
        except WaitTimeout as error:
            raise WaitTimeout(self, error.message, verdict=await self._verdict()) from None
        if until == ENDED or not self._reached(until):
            await self._raise_failure()
            if until.startswith(CONDITION):
                raise EndedError(
                    f"{self.name} has ended without {until}", fix=f"see its conditions: it is {self.phase}"
                )

    async def settle(self, until: str = ENDED, *, timeout: Seconds | None = None) -> None:
        """As `wait`, but raises no error for a result; read it from `phase`."""
        self._check_until(until)
        what = "ended" if until == ENDED else f"reached {until}"
        await self._until(
            lambda: self.ended or (until != ENDED and self._reached(until)),
            timeout,
            lambda seconds: f"{self.name} has not {what} within {seconds:g} s: it is {self.phase}",
        )

    # --- what the kinds differ in --------------------------------------------------------------------------

    def _event(self, before: str | None) -> ObjectEvent:
        """The event for the object as last read; `before` is the phase of the previous event."""
        return ObjectEvent(self.phase, self.message, before, self.ended, self._raw)

    def _reached(self, until: str) -> bool:
        """True if the object as last read is in the phase, or has the condition, `until`."""
        if not until.startswith(CONDITION):
            return self.phase == until
        type_, _, status = until.removeprefix(CONDITION).partition("=")
        return (condition(self._raw, type_) or {}).get("status") == (status or "True")

    async def _verdict(self) -> str:
        """Returns why the object waits, in one sentence; "" where that is not known."""
        return ""

    async def _raise_failure(self) -> None:
        """Raises the error for an object that has ended without success."""
        if self.ended and not self.succeeded:
            raise ObjectFailed(self, fix="see its conditions, and the logs of its pods")

    # --- shared --------------------------------------------------------------------------------------------

    def _check_until(self, until: str) -> None:
        """Raises FournosError for something that no object of this kind can reach."""
        if until == ENDED and not self._ends:
            raise FournosError(
                f"a {self._noun} has no end to wait for",
                fix='name a phase, or a condition: "condition=Ready"',
            )
        if until.startswith(CONDITION) or not self._phases or until in (ENDED, *self._phases):
            return
        known = ", ".join([*([ENDED] if self._ends else []), *self._phases])
        raise FournosError(f"{until} is not a phase", fix=f"write one of {known}, or condition=TYPE")

    async def _until(
        self, holds: Callable[[], object], timeout: Seconds | None, late: Callable[[float], str]
    ) -> None:
        """Follows the object until `holds` is true of the last read one.

        Raises WaitTimeout, whose message `late` makes of the seconds.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        try:
            async with asyncio.timeout(seconds), aclosing(self._changes()) as changes:
                async for _ in changes:
                    if holds():
                        return
        except TimeoutError:
            raise WaitTimeout(self, late(seconds or 0)) from None

    async def _effect(self, holds: Callable[[], object], timeout: Seconds, lacking: str) -> None:
        """Waits until a change has taken effect; does not wait if the timeout is 0."""
        if timeout:
            await self._until(holds, timeout, lambda seconds: f"{self.name}: {lacking} after {seconds:g} s")

    async def _patch(self, change: Callable[[], Obj | None]) -> None:
        """Reads the object and applies the merge patch that `change` makes of it; None changes nothing.

        The UID and the resourceVersion are preconditions of the merge patch: another object that took the
        name is never changed, and for one that has changed meanwhile it is decided again.
        """
        for left in reversed(range(_TRIES)):
            await self.refresh()
            if (body := change()) is None:
                return
            read = self._raw["metadata"]
            preconditions = {"uid": self.uid, "resourceVersion": read["resourceVersion"]}
            body = {**body, "metadata": {**(body.get("metadata") or {}), **preconditions}}
            try:
                self._take(await self._client.api.patch(self._resource, key_of(self._raw), body))
                return
            except NotFoundError:
                raise self._deleted() from None
            except InvalidError:
                # The UID precondition fails if another object has the name: refresh raises DeletedError.
                await self.refresh()
                raise
            except ConflictError:
                if not left:
                    raise

    async def _changes(self) -> AsyncGenerator[Obj, None]:
        """Yields the current object, then the object after each change.  Raises DeletedError."""
        with translated():
            async with self._client.watches.follow(self._resource, self._raw) as following:
                while True:
                    obj = following.object
                    if obj is None:
                        raise self._deleted()
                    self._raw = obj
                    yield obj
                    await following.change()

    def _take(self, obj: Obj) -> None:
        """Keeps the object as the last read one.  Raises DeletedError if it has another UID."""
        if uid_of(obj) != self.uid:
            raise self._deleted()
        self._raw = obj

    def _deleted(self) -> DeletedError:
        return DeletedError(
            f"{self._noun} {self.name} ({self.uid}) was deleted", fix=f"see what there is: {self._plural()}()"
        )

    def _plural(self) -> str:
        """The name of the client's method that lists objects of this kind."""
        return f"{self._noun}s".lower()


class AsyncWork(AsyncHandle):
    """The handle of an object that users submit and delete."""

    @typed
    async def delete(self) -> None:
        """Deletes the object and its dependents.  What runs is stopped first.

        The delete has the UID as its precondition: another object that took the name is never deleted.
        """
        try:
            await self._client.api.delete(self._resource, key_of(self._raw), uid=self.uid)
        except (NotFoundError, ConflictError):
            raise self._deleted() from None
