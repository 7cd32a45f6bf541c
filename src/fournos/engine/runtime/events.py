"""Sends Kubernetes Events (events.k8s.io/v1): aggregated, rate-limited, and without blocking a pass."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import OrderedDict, deque
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeAlias

from fournos.engine.api.conditions import Condition, condition, upsert
from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import AlreadyExistsError, KubeError, NotFoundError
from fournos.engine.kube.resource import EVENT, Key, Obj, Resource, key_of, uid_of
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.decision import Decision, EventRecord, StepFailure
from fournos.engine.runtime.lease import micro_time
from fournos.engine.runtime.logs import redact_beginning
from fournos.engine.runtime.metrics import EVENTS_DROPPED, EVENTS_SENT, Metrics

# --- failures that last -----------------------------------------------------------------------------
# The shared reaction of all controllers to a failed step that is retried: silent at first, then reported.

RETRYING: Final = "Retrying"
"""The condition that is True while writes for an object keep failing."""
REFUSED: Final = frozenset({"ForbiddenError", "CredentialsError", "InvalidError"})
"""What the API server, or a webhook or a policy there, answers until a person changes something."""

MAX_NOTE: Final = 1024
"""Maximum length of an Event's note in characters, the limit of the API server."""
REPORTED_AFTER: Final = 3
"""Failed passes in a row before a failure is reported; a shorter failure is not worth an Event."""


def lasts(failure: StepFailure) -> bool:
    """True if the failure has lasted long enough to be reported."""
    return failure.count >= REPORTED_AFTER


def describe(failure: StepFailure) -> str:
    """Returns the message for a failure that is retried."""
    step = type(failure.step).__name__
    return f"{step} failed {failure.count} times in a row, retrying: {failure.message}"


def retried(failure: StepFailure) -> Decision:
    """Returns a decision that retries with backoff.

    It has an Event only after exactly `REPORTED_AFTER` failed passes, not after later ones.
    """
    if failure.count != REPORTED_AFTER:
        return Decision(retry=True)
    return Decision(events=(EventRecord("Warning", failure.error, describe(failure)),), retry=True)


def with_refusal(decision: Decision, failure: StepFailure, primary: Obj, now: datetime) -> Decision:
    """Returns the decision with the condition Retrying if the failure is a refusal that lasts.

    The condition and its Event come once for each class of refusal: the text is that of the first time, so
    that a repetition writes nothing.
    """
    if failure.error not in REFUSED or not lasts(failure):
        return decision
    text = describe(failure)
    present = condition(primary, RETRYING)
    if present is not None and (present.get("status"), present.get("reason")) == ("True", failure.error):
        first_text = str(present.get("message") or "")
        return _with_condition(decision, primary, now, "True", failure.error, first_text)
    has_event = any((event.type, event.reason) == ("Warning", failure.error) for event in decision.events)
    events = () if has_event else (EventRecord("Warning", failure.error, text[:MAX_NOTE]),)
    written = _with_condition(decision, primary, now, "True", failure.error, text)
    return replace(written, events=(*decision.events, *events))


def recovered(decision: Decision, primary: Obj, now: datetime) -> Decision:
    """Returns the decision, whose steps have all succeeded, with a condition Retrying that is False again."""
    if (condition(primary, RETRYING) or {}).get("status") != "True":
        return decision
    return _with_condition(decision, primary, now, "False", "Recovered", "")


def _with_condition(
    decision: Decision, primary: Obj, now: datetime, status: str, reason: str, message: str
) -> Decision:
    """Puts the condition into the wanted status, or into the present one if the decision leaves that."""
    before = primary.get("status") or {}
    status_after = before if decision.status is None else decision.status
    others = [entry for entry in status_after.get("conditions") or () if entry.get("type") != RETRYING]
    present = condition(primary, RETRYING)
    conditions = upsert(
        (*others, present) if present is not None else others,
        Condition(RETRYING, status, reason, message),
        now=now,
        generation=primary["metadata"].get("generation"),
    )
    places = {str(entry.get("type")): index for index, entry in enumerate(before.get("conditions") or ())}
    conditions.sort(key=lambda entry: places.get(str(entry.get("type")), len(places)))
    return replace(decision, status={**status_after, "conditions": conditions})


log = logging.getLogger(__name__)

QUEUE = 5000
REMEMBERED = 4096
"""Maximum number of series, and of objects with a budget, that are remembered."""
SERIES_WINDOW = 600.0
"""Seconds after which a repetition is recorded as a new Event."""
SERIES_PAUSE = 30.0
"""Seconds between two updates of one series; repetitions in between are only counted."""
BURST = 25
REFILL = 60.0
"""Each object may record BURST new Events at once, and one more every REFILL seconds."""

_CONTROLLER: Final = "fournos.dev/fournos"
_SeriesKey: TypeAlias = tuple[str, str, str, str]


@dataclass(slots=True)
class _Series:
    """Equal events about one object, stored as one Event."""

    key: Key
    body: Obj | None
    """The Event to create; None once it is created."""
    last_seen: float
    count: int = 1
    queued: bool = False
    sent_at: float = 0.0


@dataclass(slots=True)
class _Budget:
    """The token bucket of one object."""

    tokens: float
    at: float


def event_body(
    resource: Resource,
    obj: Obj,
    note: EventRecord,
    *,
    name: str,
    at: datetime,
    controller: str,
    instance: str,
    action: str = "Reconcile",
) -> Obj:
    """Returns the Event of this name about the object."""
    key = key_of(obj)
    regarding: dict[str, Any] = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": key.name,
        "uid": uid_of(obj),
    }
    if key.namespace:
        regarding["namespace"] = key.namespace
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"namespace": key.namespace or "default", "name": name},
        "eventTime": micro_time(at),
        "reportingController": controller,
        "reportingInstance": instance[:128],
        "action": action,
        "type": note.type,
        "reason": note.reason,
        "note": redact_beginning(note.message, MAX_NOTE),
        "regarding": regarding,
    }


class Recorder:
    """Records events (client-go's EventRecorder).  `record` enqueues an event; `run` sends one at a time."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        metrics: Metrics,
        *,
        instance: str = "fournos",
    ) -> None:
        self._api = api
        self._clock = clock
        self._metrics = metrics
        self._instance = instance
        self._series: OrderedDict[_SeriesKey, _Series] = OrderedDict()
        self._budgets: OrderedDict[str, _Budget] = OrderedDict()
        self._queue: deque[_Series] = deque()
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def record(self, resource: Resource, obj: Obj, note: EventRecord) -> None:
        """Enqueues an event.  Never blocks, never raises; events above the limits are dropped and counted."""
        now = self._clock.monotonic()
        series_key = (uid_of(obj), note.type, note.reason, note.message)
        series = self._series.get(series_key)
        if series is not None and now - series.last_seen <= SERIES_WINDOW:
            self._series.move_to_end(series_key)
            series.count += 1
            series.last_seen = now
            if not series.queued and now - series.sent_at >= SERIES_PAUSE:
                self._enqueue(series)
            return
        if not self._afford(uid_of(obj), now):
            self._metrics.add(EVENTS_DROPPED, "rate limit")
            return
        body = event_body(
            resource,
            obj,
            note,
            name=f"{key_of(obj).name[:200]}.{uuid.uuid4().hex[:16]}",
            at=self._clock.now(),
            controller=_CONTROLLER,
            instance=self._instance,
        )
        series = self._series[series_key] = _Series(key_of(body), body, now)
        while len(self._series) > REMEMBERED:
            self._series.popitem(last=False)
        self._enqueue(series)

    async def run(self) -> None:
        """Sends until cancelled."""
        while True:
            await self._filled.wait()
            while self._queue:
                series = self._queue.popleft()
                series.queued = False
                await self._send(series)
            self._filled.clear()
            self._empty.set()

    async def flush(self) -> None:
        """Returns when no event is waiting to be sent (`run` must be running)."""
        await self._empty.wait()

    # --- inside --------------------------------------------------------------------------------------

    def _afford(self, uid: str, now: float) -> bool:
        budget = self._budgets.setdefault(uid, _Budget(BURST, now))
        self._budgets.move_to_end(uid)
        while len(self._budgets) > REMEMBERED:
            self._budgets.popitem(last=False)
        budget.tokens = min(BURST, budget.tokens + (now - budget.at) / REFILL)
        budget.at = now
        if budget.tokens < 1:
            return False
        budget.tokens -= 1
        return True

    def _enqueue(self, series: _Series) -> None:
        if len(self._queue) >= QUEUE:
            self._metrics.add(EVENTS_DROPPED, "queue full")
            return
        series.queued = True
        self._queue.append(series)
        self._filled.set()
        self._empty.clear()

    async def _create(self, body: Obj) -> None:
        try:
            await self._api.create(EVENT, body)
        except AlreadyExistsError:
            return  # an earlier request created it, but its response was lost

    async def _send(self, series: _Series) -> None:
        body, count = series.body, series.count
        series.sent_at = self._clock.monotonic()
        try:
            if body is not None:
                await self._create(body)
                series.body = None
            else:
                repeated = {"count": count, "lastObservedTime": micro_time(self._clock.now())}
                await self._api.patch(EVENT, series.key, {"series": repeated})
        except NotFoundError:
            self._metrics.add(EVENTS_DROPPED, "gone")  # the Event or its namespace
        except KubeError as error:
            self._metrics.add(EVENTS_DROPPED, "refused")
            log.debug("event not written: %s", error.message)
        except Exception:
            self._metrics.add(EVENTS_DROPPED, "error")
            log.exception("event not written")
        else:
            self._metrics.add(EVENTS_SENT)
