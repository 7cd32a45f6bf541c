"""One pass over one key: observe → decide → act → write the status."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Generic

from fournos.engine.kube.errors import (
    ConflictError,
    KubeError,
    NotFoundError,
    NotLeaderError,
    ServerError,
    TransientError,
)
from fournos.engine.kube.resource import Key, Obj, key_of, merge_patch, uid_of
from fournos.engine.runtime.act import Acted, CacheChange, NameWait, StepExecutor
from fournos.engine.runtime.controller import Caches, Controller, Observed
from fournos.engine.runtime.decision import (
    MAX_ROUNDS,
    Answer,
    Decision,
    EventRecord,
    Facts,
    NeededFacts,
    Patch,
    Question,
    Step,
    StepFailure,
    attempt,
)
from fournos.engine.runtime.events import REFUSED, recovered, retried, with_refusal
from fournos.engine.runtime.fetch_facts import answer
from fournos.engine.runtime.logs import bind

log = logging.getLogger(__name__)


class Result(StrEnum):
    """How a pass ended."""

    GONE = "gone"
    """The object does not exist, so there is nothing to decide."""
    DONE = "done"
    WAITING = "waiting"
    """A name is taken by an object that will soon be gone."""
    FAILED = "failed"
    CONFLICT = "conflict"
    """Another client wrote first; the next pass observes its change."""
    BUG = "bug"
    """An exception that is not an error of the API server."""


@dataclass(frozen=True, slots=True)
class PassOutcome:
    """The result of a pass, and when the key runs next."""

    result: Result
    object: Obj | None = None
    """The primary object; after a status write, as the API server returned it."""
    done: tuple[tuple[Step, Obj | None], ...] = ()
    failure: StepFailure | None = None
    waiting: NameWait | None = None
    events: tuple[EventRecord, ...] = ()
    """Events to send now, after the status was written."""
    wrote_status: bool = False
    again: bool = False
    """Run the key again at once."""
    retry: bool = False
    """Run the key with backoff, not before `retry_after` seconds; the pass counts as failed."""
    retry_after: float = 0.0
    wake_at: datetime | None = None
    error: Exception | None = None
    """The exception, for BUG and for a status that could not be written."""


async def reconcile(
    controller: Controller[Observed],
    caches: Caches,
    executor: StepExecutor,
    key: Key,
    now: datetime,
    failures: int,
) -> PassOutcome:
    """Runs one pass.  `failures`: how many passes of this key have failed in a row.

    Raises only NotLeaderError; all other errors become the outcome.
    """
    current = _Pass(controller, caches, executor, key, now, failures)
    with bind(system=controller.name, kind=controller.resource.kind, namespace=key.namespace, name=key.name):
        try:
            return await current.run()
        except NotLeaderError:
            raise
        except ConflictError:
            return PassOutcome(Result.CONFLICT, done=tuple(current.done), retry=True)
        except Exception as error:  # one malformed object must not stop the others
            log.exception("a pass raised %s", type(error).__name__)
            return PassOutcome(Result.BUG, done=tuple(current.done), retry=True, error=error)


class _Pass(Generic[Observed]):
    """The state of one pass over one key."""

    def __init__(
        self,
        controller: Controller[Observed],
        caches: Caches,
        executor: StepExecutor,
        key: Key,
        now: datetime,
        failures: int,
    ) -> None:
        self.controller = controller
        self.caches = caches
        self.executor = executor
        self.key = key
        self.now = now
        self.failures = failures
        self.answers: dict[Question, Answer] = {}
        self.done: list[tuple[Step, Obj | None]] = []
        self.cache_change = CacheChange.NONE

    async def run(self) -> PassOutcome:
        observed = self.controller.observe(self.caches, self.key)
        if observed is None:
            return PassOutcome(Result.GONE)
        with bind(uid=uid_of(self.controller.primary(observed))):
            return await self.work(observed)

    async def work(self, observed: Observed) -> PassOutcome:
        decision = await self.decide(observed, None)
        acted = await self.act(decision)
        failure = None
        if self.is_gone(acted.stopped):
            return PassOutcome(Result.GONE, object=self.controller.primary(observed), done=tuple(self.done))
        if isinstance(acted.stopped, StepFailure):
            failure = acted.stopped
            decision = await self.decide(observed, failure)
            if not failure.transient:
                second = await self.act(decision)
                if isinstance(second.stopped, StepFailure):
                    # Nothing that this decision declares has come about: only the refusal is reported.
                    return await self.report(
                        observed, Decision(retry=True), second.stopped, second.retry_after
                    )
                if second.stopped is not None:
                    return self.waiting(observed, second.stopped, second)
        elif acted.stopped is not None:
            return self.waiting(observed, acted.stopped, acted)
        return await self.report(observed, decision, failure, acted.retry_after)

    async def decide(self, observed: Observed, failure: StepFailure | None) -> Decision:
        for _ in range(MAX_ROUNDS + 1):
            decision = attempt(self.controller.decide, observed, Facts(self.answers, failure), self.now)
            if not isinstance(decision, NeededFacts):
                return decision
            missing = [question for question in decision.questions if question not in self.answers]
            if not missing:
                raise RuntimeError(f"{self.controller.name} requires again facts that it already has")
            self.answers |= await answer(self.executor.api, missing)
        raise RuntimeError(f"{self.controller.name} does not decide after {MAX_ROUNDS} rounds of answers")

    def is_gone(self, stopped: StepFailure | NameWait | None) -> bool:
        """True if a patch of the object itself found no object: it is deleted and still in the cache."""
        return (
            isinstance(stopped, StepFailure)
            and stopped.error == NotFoundError.__name__
            and isinstance(stopped.step, Patch)
            and (stopped.step.resource, stopped.step.key) == (self.controller.resource, self.key)
        )

    async def act(self, decision: Decision) -> Acted:
        acted = await self.executor.act(
            decision.steps,
            self.caches,
            failures=self.failures,
            executors=self.controller.executors,
        )
        self.done += acted.done
        self.cache_change = max(self.cache_change, acted.cache_change)
        if isinstance(acted.stopped, StepFailure):
            # Transient failures come in large numbers; the manager logs the outage once for all of them.
            expected = acted.stopped.transient or self.is_gone(acted.stopped)
            level = logging.DEBUG if expected else logging.WARNING
            what = type(acted.stopped.step).__name__
            log.log(level, "%s failed: %s: %s", what, acted.stopped.error, acted.stopped.message)
        elif acted.stopped is not None:
            log.info("waiting: %s", acted.stopped.reason)
        return acted

    def waiting(self, observed: Observed, waiting: NameWait, acted: Acted) -> PassOutcome:
        return PassOutcome(
            Result.WAITING,
            object=self.controller.primary(observed),
            done=tuple(self.done),
            waiting=waiting,
            retry=True,
            retry_after=acted.retry_after,
        )

    async def report(
        self, observed: Observed, decision: Decision, failure: StepFailure | None, retry_after: float
    ) -> PassOutcome:
        """Writes the status; returns the outcome with the events to send."""
        primary = self.controller.primary(observed)
        transient = failure is not None and failure.transient
        decision = self.with_condition(primary, decision, failure)
        try:
            written = await self.write_status(primary, decision)
        except (ConflictError, NotLeaderError):
            raise
        except NotFoundError:
            return PassOutcome(Result.GONE, object=primary, done=tuple(self.done), failure=failure)
        except KubeError as error:
            level = logging.DEBUG if isinstance(error, TransientError) else logging.WARNING
            log.log(level, "status not written: %s", error.message)
            after = error.retry_after if isinstance(error, ServerError) else None
            return PassOutcome(
                Result.FAILED,
                object=primary,
                done=tuple(self.done),
                failure=failure,
                retry=True,
                retry_after=max(retry_after, after or 0.0),
                error=error,
            )
        # The written status is input of the next decision, and its own watch event enqueues no key.
        settled = decision.settled and failure is None
        least = CacheChange.UNFORESEEN if settled else CacheChange.OWN
        again = self.cache_change >= least or (written is not None and self.stored_as_sent(written, decision))
        # A step that failed is retried after the backoff, even if earlier steps have changed a cache.
        retry = transient or (decision.retry and (failure is not None or not again))
        return PassOutcome(
            Result.FAILED if failure is not None else Result.DONE,
            object=written or primary,
            done=tuple(self.done),
            failure=failure,
            events=decision.events,  # only after the status write, which a stale decision fails
            wrote_status=written is not None,
            again=again and not retry,
            retry=retry,
            retry_after=retry_after,
            wake_at=decision.wake_at,
        )

    def with_condition(self, primary: Obj, decision: Decision, failure: StepFailure | None) -> Decision:
        """Returns the decision with the condition Retrying, where the status is ours; else with its Event."""
        if self.controller.owns_status(primary):
            if failure is None:
                return recovered(decision, primary, self.now)
            return with_refusal(decision, failure, primary, self.now)
        if failure is None or failure.error not in REFUSED or decision.events:
            return decision
        return replace(decision, events=retried(failure).events)

    async def write_status(self, primary: Obj, decision: Decision) -> Obj | None:
        """Writes the changed keys of the status; returns the written object, None if nothing differs.

        The observed resourceVersion is a precondition: a status must not be declared for a newer object.
        """
        if decision.status is None:
            return None
        changes = merge_patch(primary.get("status") or {}, decision.status)
        if not changes:
            return None
        body = {"metadata": {"resourceVersion": self.version_of(primary)}, "status": changes}
        written = await self.executor.api.patch(
            self.controller.resource, key_of(primary), body, subresource="status"
        )
        self.caches.assume(self.controller.resource, written)
        if self.controller.written is not None:
            self.controller.written(primary, written)
        return written

    def stored_as_sent(self, written: Obj, decision: Decision) -> bool:
        """True if the API server stored the status as sent.  If it did not, another write would be a loop."""
        changed = merge_patch(written.get("status") or {}, decision.status or {})
        if changed:
            log.warning("the API server changed the status: %s", ", ".join(sorted(changed)))
        return not changed

    def version_of(self, primary: Obj) -> str:
        """Returns the observed resourceVersion, or the one after our own conditional patches in this pass."""
        version = str(primary["metadata"]["resourceVersion"])
        for step, answered in self.done:
            if (
                isinstance(step, Patch)
                and answered is not None
                and (step.resource, step.key) == (self.controller.resource, key_of(primary))
                and (step.body.get("metadata") or {}).get("resourceVersion") == version
            ):
                version = str(answered["metadata"]["resourceVersion"])
        return version
