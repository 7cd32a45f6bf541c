"""What `fournos run` makes of its settings, up to the point at which the process begins to work."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp
import pytest

from fournos.app import run
from fournos.app.parts import PARTS
from fournos.app.run import Served, WebhookOffer, lease_namespace, served
from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.kube.resource import NAMESPACE, SECRET, VALIDATING_WEBHOOKS, Key
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.lease import Lease
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.webhook.registration import LABEL, WebhookSettings
from fournos.systems.clusters.settings import ClusterSettings
from fournos.systems.miniclusters.settings import MiniClusterSettings
from tests.multikueue_configuration import configuration
from tests.unit.engine.runtime.loop import LoopClock
from tests.unit.engine.runtime.webhook.toy import webhook
from tests.waiting import free_port, until
from tests.world.connection import Connection
from tests.world.server import Server, VirtualClock

# --- start ------------------------------------------------------------------------------------------


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
    monkeypatch.setenv("FOURNOS_MULTIKUEUE_CONFIG_FILE", configuration("Foo.v1.example.com"))
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


@pytest.mark.parametrize(
    ("enable", "option", "variable"),
    [
        ("miniclusters", "--health-port", ""),
        ("miniclusters", "FOURNOS_METRICS_PORT", "FOURNOS_METRICS_PORT"),
        ("web", "FOURNOS_WEB_PORT", "FOURNOS_WEB_PORT"),
    ],
)
def test_a_port_that_is_taken_ends_it_before_it_leads_in_one_sentence(
    enable: str,
    option: str,
    variable: str,
    started: Started,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        if variable:
            monkeypatch.setenv(variable, str(port))
        assert run.main(enable=(enable,), health_port=started.port if variable else port) != 0
    assert started.tasks == set(), "nothing has started"
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"fournos: port {port} ({option}) cannot be used: Address already in use"


@pytest.mark.parametrize("part", [name for name, part in PARTS.items() if part.lease])
def test_a_part_s_variable_names_the_namespace_of_its_lease(
    part: str, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = "namespace" in PARTS[part].settings.model_fields and part != "history"
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


# --- namespaces -------------------------------------------------------------------------------------
# An operator in a terminal leads wherever it is started.

DEFAULT = "operator-system"


class Api:
    """The part of the API server that these tests need."""

    def __init__(self, *namespaces: str, forbidden: bool = False) -> None:
        self.server, self.forbidden = Server(VirtualClock()), forbidden
        for name in namespaces:
            self.server.create(NAMESPACE, {"metadata": {"name": name}})

    async def get(self, resource: Any, key: Any) -> Any:
        if self.forbidden:
            raise ForbiddenError("namespaces is forbidden")
        return self.server.get(resource, key)


@pytest.mark.parametrize(
    ("api", "given", "wanted"),
    [
        (Api(), "", "mine"),
        (Api(DEFAULT), "", DEFAULT),
        (Api(forbidden=True), "", DEFAULT),
        (Api(), "said", "said"),
    ],
    ids=["nothing is deployed", "deployed", "cannot be asked", "said"],
)
async def test_the_lease_lies_where_it_can(api: Any, given: str, wanted: str) -> None:
    settings = MiniClusterSettings()
    assert await lease_namespace(api, PARTS["miniclusters"], settings, given, "mine") == wanted


async def test_the_lease_of_hearth_is_with_its_clusters() -> None:
    api: Any = Api()
    part = PARTS["clusters"]
    assert await lease_namespace(api, part, ClusterSettings(namespace="said"), "other", "mine") == "said"
    assert await lease_namespace(api, part, ClusterSettings(), "other", "mine") == "mine"


# --- webhooks ---------------------------------------------------------------------------------------
# Whether webhooks are served, and who keeps their configurations.


def lease(api: Connection, namespace: str) -> Lease:
    return Lease(api, Key(namespace, "part"), "me", SystemClock())


@pytest.mark.parametrize(
    ("settings", "webhooks", "expected"),
    [
        ({}, (webhook(),), False),
        ({"service": "hooks"}, (), False),
        ({"service": "hooks"}, (webhook(),), True),
    ],
)
async def test_it_takes_a_webhook_and_a_way_to_it(
    settings: dict[str, str], webhooks: tuple[object, ...], expected: bool
) -> None:
    api = Connection(Server())
    offers = [WebhookOffer((), "one", lease(api, "one")), WebhookOffer(webhooks, "two", lease(api, "two"))]  # type: ignore[arg-type]
    found = served(
        api,
        offers,
        WebhookSettings(**settings),
        clock=SystemClock(),
        metrics=Metrics(),  # type: ignore[arg-type]
    )
    assert bool(found.background) is expected
    assert bool(list(found.problems())) is expected


@pytest.mark.looptime
async def test_the_first_part_that_has_webhooks_leads_and_owns_the_configurations_of_all() -> None:
    server = Server()
    api, clock = Connection(server), LoopClock()
    leases = [Lease(api, Key(name, "part"), "me", clock) for name in ("one", "two", "three")]
    hooks = [(), (webhook(),), (webhook(name="b.fournos.dev", path="/b", configuration="fournos-b"),)]
    offers = [WebhookOffer(found, one.key.namespace, one) for found, one in zip(hooks, leases, strict=True)]
    settings = WebhookSettings(service="hooks")
    found = served(api, offers, settings, clock=clock, metrics=Metrics())
    task = asyncio.create_task(found.background["webhook-certificates"]())  # type: ignore[arg-type]
    await leases[0].acquire()
    await asyncio.sleep(5)
    assert server.list(VALIDATING_WEBHOOKS) == []
    await leases[1].acquire()
    await asyncio.sleep(5)
    made = server.list(VALIDATING_WEBHOOKS)
    assert [one["metadata"]["name"] for one in made] == ["fournos-b", "fournos-toys"]
    assert {one["metadata"]["labels"][LABEL] for one in made} == {"two"}
    assert server.get(SECRET, Key("two", "hooks-cert"))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
