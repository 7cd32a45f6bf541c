"""Locks, drains, ttls and owners in any order: generated sequences, compared with a model of few lines."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.engine.api.values import parse_time
from fournos.engine.kube.resource import Key
from fournos.insight.clusters import lock_change, unlock_change
from tests.unit.systems.clusters import actors
from tests.unit.systems.clusters.actors import HUB, cluster, edit, hub, quotas
from tests.unit.systems.clusters.test_lifecycle import LOCK, SLOT, one
from tests.world.group import Group
from tests.world.harness import run_to_quiescence
from tests.world.server import Server

HOLD = "example.com/hold"
TTL = timedelta(minutes=30)


@dataclass
class Model:
    """What a cluster's owner, lock and drain must come to."""

    now: datetime
    owner: str = ""
    since: datetime | None = None
    ttl: bool = False
    drain: str | None = None
    drained_before: bool = False

    def lock(self, owner: str, *, ttl: bool = False, drain: str | None = None) -> None:
        if not self.owner:
            self.since, self.drained_before = self.now, self.drain is not None
        self.owner, self.ttl, self.drain = owner, ttl, drain or self.drain

    def unlock(self) -> None:
        self.owner, self.since, self.ttl = "", None, False
        self.drain = self.drain if self.drained_before else None

    def passes(self, time: timedelta) -> None:
        self.now += time
        if self.owner and self.ttl and self.since is not None and self.since + TTL <= self.now:
            self.unlock()


class Stage:
    """A cluster, whose lock's FournosJob can be kept from going, and the model beside it."""

    def __init__(self) -> None:
        self.server = Server()
        hub(self.server)
        one(self.server)
        self.group = Group(self.server, actors.controllers())
        self.model = Model(self.server.clock.now())

    async def settle(self) -> None:
        await run_to_quiescence(self.group, [actors.jobs_at_work, actors.kueue], horizon=20.0)
        self.model.passes(self.server.clock.now() - self.model.now)

    async def act(self, name: str) -> None:
        ACTIONS[name](self)
        await self.settle()

    # --- what people do ---

    def lock(self, owner: str, *, ttl: bool = False, drain: str | None = None) -> None:
        if self.model.owner not in ("", owner):
            return  # the client refuses it
        if not ttl and self.model.ttl:
            return
        text = "30m" if ttl else None
        now = self.server.clock.now()
        try:
            change = lock_change(cluster(self.server), owner, ttl=text, drain=drain, now=now)
        except Exception:  # a ttl that has passed already
            return
        edit(self.server, **change["spec"])
        self.model.lock(owner, ttl=ttl, drain=drain.capitalize() if drain else None)

    def unlock(self) -> None:
        self.server.patch(FOURNOS_CLUSTER, Key(HUB, "c1"), unlock_change(cluster(self.server)))
        self.model.unlock()

    def drain(self, mode: str | None) -> None:
        edit(self.server, drain=mode)
        self.model.drain = mode
        self.model.drained_before &= mode is not None

    def later(self) -> None:
        self.server.clock.advance(40 * 60)

    def keep_job(self) -> None:
        """Its deletion takes until the end of the sequence."""
        if self.server.find(FOURNOS_JOB, LOCK) is not None:
            self.server.patch(FOURNOS_JOB, LOCK, {"metadata": {"finalizers": [HOLD]}})

    def let_job_go(self) -> None:
        if self.server.find(FOURNOS_JOB, LOCK) is not None:
            self.server.patch(FOURNOS_JOB, LOCK, {"metadata": {"finalizers": None}})


ACTIONS: dict[str, Callable[[Stage], None]] = {
    "lock": lambda stage: stage.lock("ann"),
    "lock for a time": lambda stage: stage.lock("ann", ttl=True),
    "lock and drain": lambda stage: stage.lock("ann", ttl=True, drain="wait"),
    "lock for another": lambda stage: stage.lock("bob", ttl=True),
    "unlock": Stage.unlock,
    "drain": lambda stage: stage.drain("Wait"),
    "undrain": lambda stage: stage.drain(None),
    "time passes": Stage.later,
    "its job stays": Stage.keep_job,
}
LOCKS = [name for name in ACTIONS if name.startswith("lock")]


def sequences() -> list[tuple[str, ...]]:
    """Those of the known faults, and others by chance, always the same."""
    chance = random.Random(7)
    known = [
        ("lock", "its job stays", "unlock", "lock for a time"),
        ("lock for a time", "its job stays", "unlock", "time passes", "lock for a time"),
        ("lock for a time", "its job stays", "time passes", "lock"),
        ("drain", "lock for a time", "time passes"),
        ("drain", "lock", "unlock"),
        ("drain", "lock", "undrain", "lock and drain", "time passes"),
        ("drain", "lock and drain", "time passes"),
        ("lock and drain", "time passes"),
        ("lock and drain", "unlock", "drain", "lock for a time", "time passes"),
    ]
    others = [(*chance.choices(list(ACTIONS), k=3), chance.choice(LOCKS), chance.choice(list(ACTIONS)))]
    while len(others) < 40:
        others.append(tuple(chance.choices(list(ACTIONS), k=5)))
    return [*known, *others]


def _locks(server: Server) -> list[dict[str, Any]]:
    return [job for job in server.list(FOURNOS_JOB) if job["spec"].get("lockOnly")]


@pytest.mark.parametrize("sequence", sequences(), ids=", ".join)
async def test_a_sequence_comes_to_what_was_asked_for(sequence: tuple[str, ...]) -> None:
    stage = Stage()
    await stage.settle()
    for name in sequence:
        await stage.act(name)
    stage.let_job_go()
    for _ in range(2):
        await stage.settle()
    found, model = cluster(stage.server), stage.model
    spec, status = found["spec"], found["status"]
    assert (spec.get("owner") or "", spec.get("drain")) == (model.owner, model.drain)
    assert status["locked"] is bool(model.owner)
    assert [job["spec"]["owner"] for job in _locks(stage.server)] == ([model.owner] if model.owner else [])
    lock = status.get("lock") or {}
    assert (lock.get("state"), lock.get("owner")) == (("Held", model.owner) if model.owner else (None, None))
    if model.owner and model.ttl:
        assert model.since is not None
        assert parse_time(status["lockExpiresAt"]) >= model.since + TTL - timedelta(seconds=1)
    else:
        assert "lockExpiresAt" not in status
    takes_jobs = not model.drain
    assert quotas(stage.server)["c1"][SLOT] == (100 if takes_jobs else 0)
