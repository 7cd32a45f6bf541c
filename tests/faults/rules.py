"""The faults to inject: which requests or events they affect, and how often."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TypeAlias

# --- what goes wrong ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refuse:
    """Answers with this code; `after`: only after the API server has carried out the request."""

    code: int
    reason: str = ""
    message: str = "fault"
    retry_after: int | None = None
    after: bool = False


@dataclass(frozen=True)
class Cut:
    """Drops the connection; `after`: only after the API server has carried out the request."""

    after: bool = False


@dataclass(frozen=True)
class Delay:
    """Pass it on so many seconds later."""

    seconds: float


@dataclass
class Hold:
    """Delays the request until released; `after`: delays the answer of a request that was carried out (not
    an answer that it refuses).

    One may stand in several rules: whatever comes first sets `reached` and is named by `call`.
    """

    after: bool = False
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    call: Call | None = None

    async def wait(self, call: Call) -> None:
        """The proxy's part."""
        self.call = self.call or call
        self.reached.set()
        await self.released.wait()

    def release(self) -> None:
        self.released.set()


@dataclass(frozen=True)
class Hide:
    """The event never arrives; with bookmarks hidden, too, the watch falls silent."""


@dataclass(frozen=True)
class ErrorEvent:
    """An ERROR event in place of the event, and the end of the watch."""

    code: int
    reason: str = ""


RequestFault: TypeAlias = Refuse | Cut | Delay | Hold
EventFault: TypeAlias = Cut | Delay | Hold | Hide | ErrorEvent
Fault: TypeAlias = RequestFault | EventFault

# --- to whom -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """A request as Kubernetes names it.  `resource` is the plural, "" for paths such as /readyz."""

    verb: str
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass
class Rule:
    """A fault for the first `times` (None: all) matches; "" matches anything."""

    fault: Fault
    verb: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str | None = None
    event: str | None = None
    """None: a rule for requests.  "": for any event but bookmarks; "*": bookmarks, too; else of this type."""
    times: int | None = 1
    hits: int = 0
    hit: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at the first match."""

    def cancel(self) -> None:
        self.times = 0

    def takes(self, call: Call, event: str | None = None) -> bool:
        """Whether this applies; a match is counted."""
        if self.times is not None and self.hits >= self.times:
            return False
        if self.event is None or event is None:
            if self.event is not event:
                return False
        elif self.event not in ("*", event) and (self.event or event == "BOOKMARK"):
            return False
        wanted = (self.verb, self.resource, self.namespace, self.name)
        given = (call.verb, call.resource, call.namespace, call.name)
        if any(want and want != have for want, have in zip(wanted, given, strict=True)):
            return False
        if self.subresource is not None and self.subresource != call.subresource:
            return False
        self.hits += 1
        self.hit.set()
        return True


def call_of(method: str, path: str, *, watch: bool = False) -> Call:
    """Which call a request is; the API server's own rules for paths."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        rest = parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        rest = parts[3:]
    else:
        return Call(method.lower())
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    verb = verbs.get(method) or ("watch" if watch else "get" if name else "list")
    return Call(verb, resource, namespace, name, subresource)
