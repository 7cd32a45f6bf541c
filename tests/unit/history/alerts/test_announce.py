"""Where announcements go: requests of the webhook at a server of this machine, and Events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.errors import ForbiddenError, KubeError, ServerError
from fournos.engine.kube.resource import EVENT, Obj, Resource
from fournos.history.alerts.announce import Events, NotSentError, Webhook
from fournos.history.alerts.news import NewsContext
from tests.unit.history.alerts.test_news import CONTEXT, JOB, drop
from tests.world.connection import Connection
from tests.world.server import Server, VirtualClock

HIDDEN = "T000-B000-hidden"


class Receiver:
    """Answers with the statuses in turn, the last one for ever; 0 does not answer."""

    def __init__(self) -> None:
        self.statuses = [200]
        self.requests: list[tuple[str, bytes, dict[str, str]]] = []
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        self.requests.append((request.path, await request.read(), dict(request.headers)))
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if not status:
            await asyncio.Event().wait()
        return web.Response(status=status, headers={"Location": "/elsewhere"} if status == 307 else {})


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    found, app = Receiver(), web.Application()
    app.router.add_route("*", "/{path:.*}", found.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/services/{HIDDEN}"
    yield found
    await runner.cleanup()


def webhook(tmp_path: Path, limit: float = 60.0) -> Webhook:
    return Webhook(str(tmp_path / "url"), pauses=(0.0, 0.0), limit=limit)


async def send(tmp_path: Path, limit: float = 60.0) -> NotSentError | None:
    """Returns why the message was not taken."""
    try:
        await webhook(tmp_path, limit).send(drop(), CONTEXT)
    except NotSentError as error:
        return error
    return None


@pytest.fixture
def url(receiver: Receiver, tmp_path: Path) -> Path:
    (tmp_path / "url").write_text(f"{receiver.url}\n")
    return tmp_path / "url"


async def test_the_body_arrives_once(receiver: Receiver, url: Path, tmp_path: Path) -> None:
    assert await send(tmp_path) is None
    ((path, content, headers),) = receiver.requests
    assert (path, headers["Content-Type"]) == (f"/services/{HIDDEN}", "application/json")
    assert json.loads(content)["fournos"]["state"] == "Confirmed"


async def test_a_server_that_fails_is_asked_three_times(
    receiver: Receiver, url: Path, tmp_path: Path
) -> None:
    receiver.statuses = [500, 503, 200]
    assert await send(tmp_path) is None
    receiver.statuses, receiver.requests = [500], []
    error = await send(tmp_path)
    assert error is not None and (str(error), error.down, len(receiver.requests)) == ("status 500", True, 3)


@pytest.mark.parametrize("status", [307, 400, 404])
async def test_a_redirect_is_not_followed_and_a_refusal_not_repeated(
    receiver: Receiver, url: Path, tmp_path: Path, status: int
) -> None:
    receiver.statuses = [status]
    error = await send(tmp_path)
    assert error is not None and (str(error), error.down) == (f"status {status}", False)
    assert [path for path, _, _ in receiver.requests] == [f"/services/{HIDDEN}"]


async def test_a_server_that_does_not_answer_costs_a_limited_time(
    receiver: Receiver, url: Path, tmp_path: Path
) -> None:
    receiver.statuses = [0]
    error = await send(tmp_path, limit=0.2)
    assert error is not None and error.down and "Timeout" in str(error)


@pytest.mark.parametrize(
    "text",
    [
        f"http://127.0.0.1:1/{HIDDEN}", f"ftp://host/{HIDDEN}", f"http://[{HIDDEN}", HIDDEN, f"http:///{HIDDEN}",
        f"https://user:{HIDDEN}@127.0.0.1:1/", f"http://{HIDDEN}.invalid/", "",
    ],
)  # fmt: skip
async def test_no_failure_has_the_url(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "url").write_text(text)
    with caplog.at_level("DEBUG"):
        error = await send(tmp_path)
    assert error is not None
    assert HIDDEN.lower() not in f"{error} {caplog.text}".lower()


async def test_without_a_url_nothing_is_sent(tmp_path: Path) -> None:
    assert not webhook(tmp_path).there
    assert str(await send(tmp_path)).endswith("No such file or directory")


async def test_a_url_that_is_there_is_used(url: Path, tmp_path: Path) -> None:
    assert webhook(tmp_path).there


# --- Events -----------------------------------------------------------------------------------------------


def events(server: Server, found: tuple[Resource, Obj] | None = (FOURNOS_JOB, JOB)) -> Events:
    return Events(Connection(server), lambda run: found, VirtualClock(), "pod-0")


async def test_an_event_is_created_once() -> None:
    server = Server()
    for _ in range(2):
        await events(server).write(drop(), CONTEXT)
    (made,) = server.list(EVENT)
    assert made["reason"] == "RegressionConfirmed"


async def test_a_job_that_is_gone_has_no_event() -> None:
    server = Server()
    await events(server, found=None).write(drop(), CONTEXT)
    await events(server).write(drop(), NewsContext(None))
    assert server.list(EVENT) == []


@pytest.mark.parametrize(
    ("error", "down"),
    [(ServerError("not now", status=503), True), (ForbiddenError("may not", status=403), False)],
)
async def test_a_failure_is_told_from_an_outage(error: KubeError, down: bool) -> None:
    server = Server()
    server.refusals.append(lambda verb, resource, obj: error)
    with pytest.raises(NotSentError) as refused:
        await events(server).write(drop(), CONTEXT)
    assert (str(refused.value), refused.value.down) == (error.message, down)
