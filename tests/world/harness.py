"""Runs a system in the in-memory world through every crash, stale view, lost event and failed write.

A test describes a `Scenario`: the system, what there is at first, who else is at work (actors: they play
Kueue, Tekton, the Job controller), what users do, and what must always hold.  Each `..._everywhere` runs it
once undisturbed and then once for every place where it can be disturbed; all runs must end alike.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

from fournos.engine.kube.errors import ConnectionLostError, KubeError, ServerError
from fournos.engine.kube.resource import Resource
from fournos.engine.runtime.controller import Controller
from tests.world.compare import snapshot
from tests.world.group import Group
from tests.world.process import Process, WatchEventNumber
from tests.world.server import Server, VirtualClock

Actor = Callable[[Server], None]
"""One round of somebody else's work; must stop writing when there is nothing to do."""
Action = Callable[[Server], None]
Invariant = Callable[[Server], None]
"""Asserts; checked after every pass and every round of the actors that changed something."""


def in_order(*actions: Action) -> Action:
    """Returns the action that is all of these, such as a setup on top of another."""

    def act(server: Server) -> None:
        for action in actions:
            action(server)

    return act


def refusing(resource: Resource, error: KubeError, *, verb: str = "create") -> Action:
    """Returns the action from which on the API server answers all such requests with this error."""

    def act(server: Server) -> None:
        server.refusals.append(lambda asked, of, body: error if (asked, of) == (verb, resource) else None)

    return act


Moment = tuple[int, float]
"""The version of the server, and its time."""


class DiedError(BaseException):
    """The process is killed: nothing of it may catch this."""


@dataclass(frozen=True)
class Scenario:
    controller: Controller[Any]
    setup: Action
    actors: Sequence[Actor] = ()
    script: Sequence[Action] = ()
    """What users do, each when all is quiet after the one before."""
    _: KW_ONLY
    cast: Sequence[Callable[[], Actor]] = ()
    """Actors that remember what they did: made anew for each run."""
    invariants: Sequence[Invariant] = ()
    end: Callable[[Server], Any] = snapshot
    """What all runs must agree on in the end; by default everything but times and UIDs."""
    end_unseen: Callable[[Server], Any] | None = None
    """The same for runs in which an event is lost, if that is less: users act at other moments then."""
    lags: Sequence[int] | None = None
    """By how many changes the caches of a run stay behind; by default each possible number once."""
    eager: bool = False
    """Actors work after every pass, not only when the system has nothing to do."""
    horizon: float = 3600.0
    """Seconds of virtual time, after each action, in which timers are honoured."""
    max_steps: int = 2000
    others: Sequence[Controller[Any]] = ()
    """Systems of the same process that share no cache with it."""
    born: Callable[[], None] = lambda: None
    """Called before each life: a system with a memory of its own loses it with the process."""


async def run_to_quiescence(
    process: Process | Group,
    actors: Sequence[Actor] = (),
    *,
    invariants: Sequence[Invariant] = (),
    eager: bool = False,
    horizon: float = 3600.0,
    max_steps: int = 2000,
) -> None:
    """Runs until no controller and no actor has work.  Raises AssertionError in a hot loop."""
    server = process.server
    end = server.clock.monotonic() + horizon
    idle: Moment | None = None
    """When the actors last had nothing to do."""
    for _ in range(max_steps):
        process.deliver()
        ran = await process.step() is not None
        _check(server, invariants)
        if ran and not eager:
            continue
        moment = server.version, server.clock.monotonic()
        acted = moment != idle and _round(server, actors, invariants)
        if not acted:
            idle = moment
        if acted or ran:
            continue
        if process.deliver(at_least=1) or server.collect_garbage():
            continue
        due = process.next_timer()
        if due > end:
            return
        server.clock.advance(max(0.0, due - server.clock.monotonic()))
        process.fire_timers()
    raise AssertionError(f"not quiet after {max_steps} steps; last writes: {process.api.writes[-6:]}")


def _round(server: Server, actors: Sequence[Actor], invariants: Sequence[Invariant]) -> bool:
    before = server.version
    for actor in actors:
        actor(server)
        _check(server, invariants)
    return server.version != before


def _check(server: Server, invariants: Sequence[Invariant]) -> None:
    """Invariants are of what is stored: without a change since the last check there is nothing to look at."""
    if server.checked == server.version:
        return
    server.checked = server.version
    for invariant in invariants:
        invariant(server)


# --- whole runs ----------------------------------------------------------------------------------------


@dataclass
class Run:
    """One run of a scenario; `process` is the last life."""

    scenario: Scenario
    lag: int = 0
    blind: WatchEventNumber | None = None
    before: Callable[[int], None] = lambda n: None
    after: Callable[[int], None] = lambda n: None

    async def finish(self) -> Run:
        self.server = Server(VirtualClock())
        self.actors = [*self.scenario.actors, *(make() for make in self.scenario.cast)]
        self.scenario.setup(self.server)
        self.process = self._born(blind=self.blind, before=self.before, after=self.after)
        await self._quiet()
        for action in self.scenario.script:
            action(self.server)
            await self._quiet()
        if self.blind is not None:
            self.process.relist()
            await self._quiet()
        await self._idle()
        return self

    def _born(self, **disturbances: Any) -> Process | Group:
        self.scenario.born()
        controller, others = self.scenario.controller, self.scenario.others
        if others:
            return Group(self.server, [controller, *others], lag=self.lag, **disturbances)
        return Process(self.server, controller, lag=self.lag, **disturbances)

    async def _quiet(self) -> None:
        scenario = self.scenario
        while True:
            try:
                await run_to_quiescence(
                    self.process,
                    self.actors,
                    invariants=scenario.invariants,
                    eager=scenario.eager,
                    horizon=scenario.horizon,
                    max_steps=scenario.max_steps,
                )
                return
            except DiedError:
                _check(self.server, scenario.invariants)
                # A new life, from scratch, with a view that may be as old as the lag.
                self.process = self._born()

    async def _idle(self) -> None:
        """When all is quiet, another look at everything must not write."""
        writes = len(self.process.api.writes)
        self.process.wake_all()
        await self._quiet()
        assert self.process.api.writes[writes:] == [], "writes although nothing has changed"

    @property
    def end(self) -> Any:
        return self.scenario.end(self.server)

    @property
    def moment(self) -> Moment:
        return self.server.version, self.server.clock.monotonic()


async def run(scenario: Scenario) -> Run:
    """The scenario, undisturbed."""
    return await Run(scenario).finish()


async def crash_everywhere(scenario: Scenario, *, lag: int = 0) -> int:
    """The process dies right before, or right after, each of its writes.  Returns the number of runs.

    Between two writes with nothing else in between it can die once only: the world is the same.
    """
    reference = await run(scenario)
    before: dict[int, Moment] = {}
    after: dict[int, Moment] = {}
    alive = Run(scenario, lag=lag)
    alive.before = lambda number: before.update({number: alive.moment})
    alive.after = lambda number: after.update({number: alive.moment})
    disturbed = [("nothing happened", alive)]
    assert await _all_alike(reference, disturbed) == 1
    disturbed = []
    for number, moment in before.items():
        if moment != after.get(number - 1):
            disturbed.append(
                (f"died before write {number}", Run(scenario, lag=lag, before=_at(number, DiedError())))
            )
        if number in after:
            disturbed.append(
                (f"died after write {number}", Run(scenario, lag=lag, after=_at(number, DiedError())))
            )
    return await _all_alike(reference, disturbed)


async def fail_everywhere(scenario: Scenario) -> int:
    """Each write once meets a server error, or succeeds without an answer.  Returns the number of runs."""
    reference = await run(scenario)
    disturbed = []
    for number in range(1, len(reference.process.api.writes) + 1):
        refuse = _at(number, ServerError("etcdserver: request timed out", status=500))
        lose = _at(number, ConnectionLostError("connection reset by peer"))
        disturbed.append((f"error 500 at write {number}", Run(scenario, before=refuse)))
        disturbed.append((f"no answer to write {number}", Run(scenario, after=lose)))
    return await _all_alike(reference, disturbed)


async def stale_everywhere(scenario: Scenario) -> int:
    """The caches stay behind, in each run by another of the scenario's lags.  Returns the number of runs."""
    reference = await run(scenario)
    lags = scenario.lags if scenario.lags is not None else range(1, reference.server.version + 1)
    disturbed = [(f"caches {lag} changes behind", Run(scenario, lag=lag)) for lag in lags]
    return await _all_alike(reference, disturbed)


async def blind_everywhere(scenario: Scenario) -> int:
    """Each watch event once gets lost, until the next list.  Returns the number of runs."""
    scenario = replace(scenario, end=scenario.end_unseen or scenario.end)
    reference = await run(scenario)
    disturbed = [
        (f"event {number} of system {system} lost", Run(scenario, blind=(system, number)))
        for system, number in reference.process.events
    ]
    return await _all_alike(reference, disturbed)


DISTURBED: dict[str, Callable[[Scenario], Awaitable[int]]] = {
    "crashes": crash_everywhere,
    "crashes with an old view": partial(crash_everywhere, lag=3),
    "failed writes": fail_everywhere,
    "old views": stale_everywhere,
    "lost events": blind_everywhere,
}
"""All that a scenario has to survive, as parameters of a test; each returns the number of runs."""


def _at(number: int, error: BaseException) -> Callable[[int], None]:
    def hook(current: int) -> None:
        if current == number:
            raise error

    return hook


async def _all_alike(reference: Run, disturbed: Iterable[tuple[str, Run]]) -> int:
    count = 0
    for name, current in disturbed:
        count += 1
        try:
            await current.finish()
            assert current.end == reference.end, "ends differently"
        except Exception as error:
            error.add_note(f"in the run: {name}")
            error.add_note(f"writes of the undisturbed run: {reference.process.api.writes}")
            error.add_note(f"writes of the last life: {current.process.api.writes}")
            raise
    return count
