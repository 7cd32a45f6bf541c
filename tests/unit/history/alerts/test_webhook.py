"""The webhook's requests, at a server of this machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from fournos.history.alerts.body import TEST, signature
from fournos.history.alerts.due import due
from fournos.history.alerts.receiver import SendOutcome
from fournos.history.alerts.webhook import SIGNATURE, WebhookReceiver
from tests.unit.cli.api import Api, Program
from tests.unit.cli.test_stored import run
from tests.unit.history.alerts.test_due import DROP, NOW, judged, series
from tests.world.server import VirtualClock

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


@pytest.fixture
def webhook(receiver: Receiver, tmp_path: Path) -> Callable[..., WebhookReceiver]:
    url, secret = tmp_path / "url", tmp_path / "secret"
    url.write_text(f"{receiver.url}\n")
    secret.write_text("s3cret\n")

    def make(limit: float = 60.0, secret_file: str | None = None) -> WebhookReceiver:
        name = str(secret) if secret_file is None else secret_file
        return WebhookReceiver(str(url), name, VirtualClock(), pauses=(0.0, 0.0), limit=limit)

    return make


async def test_the_body_arrives_once_and_signed(
    receiver: Receiver, webhook: Callable[..., WebhookReceiver]
) -> None:
    assert await webhook().post(b'{"text":"x"}') == SendOutcome()
    ((path, content, headers),) = receiver.requests
    assert (path, content) == (f"/services/{HIDDEN}", b'{"text":"x"}')
    assert headers["Content-Type"] == "application/json"
    sent_at = int(VirtualClock().now().timestamp())
    assert headers[SIGNATURE] == signature(b"s3cret", sent_at, content)


async def test_without_a_key_there_is_no_signature(
    receiver: Receiver, webhook: Callable[..., WebhookReceiver]
) -> None:
    assert await webhook(secret_file="").post(b"{}") == SendOutcome()
    assert SIGNATURE not in receiver.requests[0][2]


async def test_a_server_that_fails_is_asked_three_times(
    receiver: Receiver, webhook: Callable[..., WebhookReceiver]
) -> None:
    receiver.statuses = [500, 503, 200]
    assert await webhook().post(b"{}") == SendOutcome()
    receiver.statuses, receiver.requests = [500], []
    assert await webhook().post(b"{}") == SendOutcome("status 500", down=True)
    assert len(receiver.requests) == 3


@pytest.mark.parametrize("status", [307, 400, 404])
async def test_a_redirect_is_not_followed_and_a_refusal_not_repeated(
    receiver: Receiver, webhook: Callable[..., WebhookReceiver], status: int
) -> None:
    receiver.statuses = [status]
    assert await webhook().post(b"{}") == SendOutcome(f"status {status}")
    assert [path for path, _, _ in receiver.requests] == [f"/services/{HIDDEN}"]


async def test_a_server_that_does_not_answer_costs_a_limited_time(
    receiver: Receiver, webhook: Callable[..., WebhookReceiver]
) -> None:
    receiver.statuses = [0]
    outcome = await webhook(limit=0.2).post(b"{}")
    assert outcome.down
    assert "Timeout" in outcome.failure


@pytest.mark.parametrize(
    "text",
    [
        f"http://127.0.0.1:1/{HIDDEN}", f"ftp://host/{HIDDEN}", f"http://[{HIDDEN}", HIDDEN, f"http:///{HIDDEN}",
        f"https://user:{HIDDEN}@127.0.0.1:1/", f"http://{HIDDEN}.invalid/", "",
    ],
)  # fmt: skip
async def test_no_failure_has_the_url(
    webhook: Callable[..., WebhookReceiver], tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "url").write_text(text)
    with caplog.at_level("DEBUG"):
        outcome = await webhook().post(b"{}")
    assert outcome.failure
    assert HIDDEN.lower() not in f"{outcome.failure} {caplog.text}".lower()


async def test_a_key_that_is_missing_signs_nothing(
    receiver: Receiver, webhook: Callable[..., WebhookReceiver], tmp_path: Path
) -> None:
    assert await webhook(secret_file=str(tmp_path / "none")).post(b"{}") == SendOutcome()
    assert SIGNATURE not in receiver.requests[0][2]


async def test_without_a_url_nothing_is_due_until_there_is_one(
    receiver: Receiver, webhook: Callable[..., WebhookReceiver], tmp_path: Path
) -> None:
    (news,), made = due(judged(series(*DROP)), [], NOW), webhook()
    (tmp_path / "url").unlink()
    assert not made.takes(news)
    assert (await made.post(b"{}")).failure.endswith("No such file or directory")
    (tmp_path / "url").write_text(receiver.url)
    assert made.takes(news)


# --- fournos history webhook test ---------------------------------------------------------------------


@pytest.mark.parametrize(("status", "code", "said"), [(200, 0, "It was taken."), (404, 1, "status 404")])
async def test_a_test_message_says_what_became_of_it(
    receiver: Receiver,
    webhook: Callable[..., WebhookReceiver],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    code: int,
    said: str,
) -> None:
    receiver.statuses = [status]
    monkeypatch.setenv("FOURNOS_HISTORY_WEBHOOK_URL_FILE", str(tmp_path / "url"))
    result = await asyncio.to_thread(Program(Api()), "history", "webhook", "test")
    assert (result.exit_code, said in result.stdout) == (code, True)
    assert HIDDEN not in result.stdout + result.stderr
    ((_, content, _),) = receiver.requests
    assert json.loads(content) == {"text": TEST, "fournos": {"state": "Test"}}


def test_without_a_webhook_the_test_says_where_to_run_it() -> None:
    result = Program(Api())("history", "webhook", "test")
    assert result.exit_code == 2 and "in the pod of the history" in result.stderr


async def test_the_first_line_that_matches_has_the_message(
    receiver: Receiver, webhook: Callable[..., WebhookReceiver], tmp_path: Path
) -> None:
    (tmp_path / "url").write_text(
        f"# who gets what\nowner=ann {receiver.url}/ann\nteam in (a, b),stage!=dev {receiver.url}/teams\n"
    )
    runs = [
        replace(run("one"), owner="ann", labels={"team": "a"}),
        replace(run("two"), owner="bob", labels={"team": "b"}),
        replace(run("three"), owner="bob", labels={"team": "b", "stage": "dev"}),
        None,
    ]
    outcomes = [await webhook().post(b"{}", each) for each in runs]
    assert [path.rpartition("/")[2] for path, _, _ in receiver.requests] == ["ann", "teams"]
    assert outcomes == [SendOutcome(), SendOutcome(), SendOutcome(gone=True), SendOutcome(gone=True)]
    assert await webhook().test() == [
        ("owner=ann", SendOutcome()),
        ("team in (a, b),stage!=dev", SendOutcome()),
    ]


async def test_a_line_without_a_selector_takes_the_rest(
    receiver: Receiver, webhook: Callable[..., WebhookReceiver], tmp_path: Path
) -> None:
    (tmp_path / "url").write_text(f"owner=ann {receiver.url}/ann\n{receiver.url}/rest\n")
    for each in (replace(run("two"), owner="bob"), None):
        assert await webhook().post(b"{}", each) == SendOutcome()
    assert {path.rpartition("/")[2] for path, _, _ in receiver.requests} == {"rest"}


async def test_a_wrong_selector_is_named_by_its_line(
    receiver: Receiver, webhook: Callable[..., WebhookReceiver], tmp_path: Path
) -> None:
    (tmp_path / "url").write_text(f"{receiver.url}\nowner==,,= {receiver.url}\n")
    outcome = await webhook().post(b"{}")
    assert outcome.failure == "line 2 of the webhook's file begins with no label selector" and outcome.down
    assert not receiver.requests
