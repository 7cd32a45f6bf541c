"""What `fournos run` makes of its settings, up to the point at which the process begins to work."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp
import pytest

from fournos.app import run
from fournos.app.parts import PARTS
from fournos.app.run import Served, WebhookOffer
from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.resource import Key
from tests.waiting import free_port, until
from tests.world.connection import Connection
from tests.world.server import Server


class Client(Connection):
    """Stands in for the Client over HTTP; the API server has nothing yet."""

    def __init__(self, credentials: Credentials, **options: Any) -> None:
        super().__init__(Server())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None: ...


@dataclass
class Started:
    """The arguments of `process.run`."""

    managers: list[Any] = field(default_factory=list)
    answers: dict[str, int] = field(default_factory=dict)
    """Of the port of the probes, by path."""
    port: int = field(default_factory=free_port)
    tasks: set[str] = field(default_factory=set)

    async def __call__(self, managers: list[Any], *, background: Any, **options: Any) -> int:
        self.managers = managers
        self.tasks = set(background)
        health = asyncio.ensure_future(background["health"]())
        async with aiohttp.ClientSession() as session:
            for path in ("/healthz", "/metrics"):
                self.answers[path] = await self._status(session, path)
        health.cancel()
        await asyncio.gather(health, return_exceptions=True)
        return 0

    async def _status(self, session: aiohttp.ClientSession, path: str) -> int:
        async def answer() -> int | None:
            with suppress(aiohttp.ClientConnectorError):
                async with session.get(f"http://127.0.0.1:{self.port}{path}") as found:
                    return found.status
            return None

        status: int = await until(answer, f"{path} is not served", pause=0.01)
        return status


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    async def nothing_is_wrong(*args: Any) -> list[str]:
        return []

    found = Started()
    monkeypatch.setenv("FOURNOS_MULTIKUEUE_EXTERNAL_FRAMEWORKS", "Foo.v1.example.com")
    monkeypatch.setenv("FOURNOS_NAMESPACE", "n")
    identity = FixedIdentity(Proof())
    monkeypatch.setattr(run, "load", lambda *_: Credentials("https://api.example.com", identity))
    monkeypatch.setattr(run.logs, "configure", lambda *_: None)
    monkeypatch.setattr(run, "Client", Client)
    monkeypatch.setattr(run, "preflight", nothing_is_wrong)
    monkeypatch.setattr(
        "fournos.systems.multikueue.part.verify_kinds", lambda *args, **named: nothing_is_wrong()
    )
    monkeypatch.setattr(run.process, "run", found)
    return found


@pytest.mark.parametrize(("given", "status"), [(False, 200), (True, 404)])
def test_metrics_are_on_the_port_of_the_probes_or_on_their_own(
    given: bool, status: int, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    if given:
        monkeypatch.setenv("FOURNOS_METRICS_PORT", str(free_port()))
    assert run.main(enable=("miniclusters",), health_port=started.port) == 0
    assert started.answers == {"/healthz": 200, "/metrics": status}


@pytest.mark.parametrize("part", [name for name, part in PARTS.items() if part.lease])
def test_a_part_s_variable_names_the_namespace_of_its_lease(
    part: str, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = "namespace" in PARTS[part].settings.model_fields
    prefix = "FOURNOS_" if part == "schedules" else PARTS[part].prefix
    monkeypatch.setenv(f"{prefix}NAMESPACE" if own else "FOURNOS_CONTROLLER_NAMESPACE", "elsewhere")
    assert run.main(enable=(part,), health_port=started.port) == 0
    (manager,) = started.managers
    assert manager.lease.key == Key("elsewhere", PARTS[part].lease)


@pytest.mark.parametrize(("given", "place"), [("operators", "operators"), ("", "runs")])
def test_services_and_certificates_are_where_the_operator_is_and_its_lease_where_its_jobs_are(
    given: str, place: str, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operators of the same jobs, one beside the jobs and one elsewhere, compete for one Lease."""
    places = []

    def served(api: Any, offers: list[WebhookOffer], *args: Any, **named: Any) -> Served:
        places.extend(offer.namespace for offer in offers)
        return Served()

    monkeypatch.setattr(run, "served", served)
    monkeypatch.setenv("FOURNOS_NAMESPACE", "runs")
    monkeypatch.setenv("FOURNOS_CONTROLLER_NAMESPACE", given)
    assert run.main(enable=("jobs",), health_port=started.port) == 0
    (manager,) = started.managers
    assert places == [place]
    assert manager.lease.key == Key("runs", "fournos")


def test_the_page_needs_no_lease(started: Started) -> None:
    assert run.main(enable=("web",), health_port=started.port) == 0
    assert started.managers == []
    assert started.answers["/healthz"] == 200
    assert {"web", "web-certificate"} <= started.tasks


def test_the_page_beside_a_part_with_a_lease(started: Started) -> None:
    assert run.main(enable=("miniclusters,web",), health_port=started.port) == 0
    assert len(started.managers) == 1 and "web" in started.tasks
