"""The copy of a FournosCluster's kubeconfig: its token does not end before the original has another one."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from fournos.engine.kube.resource import SECRET, Key
from fournos.systems.multikueue import names
from fournos.systems.multikueue.fournoscluster.build import secret_name
from fournos.systems.multikueue.fournoscluster.controller import fournosclusters
from fournos.systems.multikueue.fournoscluster.observe import project_source
from fournos.systems.multikueue.kinds import MULTIKUEUE_CLUSTER
from fournos.systems.multikueue.kubeconfig import token_in
from fournos.systems.multikueue.tokens import tokens_controller
from tests.fakes.clusters import kubeconfig
from tests.unit.systems.multikueue.test_connections import KUEUE, SECRETS, SETTINGS, encoded, fournos_cluster
from tests.unit.systems.multikueue.test_tokens import ACCOUNT, LIFE, SERVER, Now, Worker, jwt
from tests.world.group import Group
from tests.world.harness import DISTURBED, Scenario, run, run_to_quiescence
from tests.world.server import Server, VirtualClock

SOURCE, COPY = Key(SECRETS, "kubeconfig-c1"), Key(KUEUE, secret_name("c1"))


def source(server: Server, *, account: str = ACCOUNT) -> bytes:
    """With a token that ends in `LIFE` seconds."""
    return kubeconfig(SERVER, token=jwt(account, server.clock.now()))


def content(server: Server, key: Key) -> bytes:
    return base64.b64decode(server.get(SECRET, key)["data"][names.KUBECONFIG])


def label(server: Server, key: Key = COPY) -> str | None:
    found = server.get(SECRET, key)["metadata"].get("labels") or {}
    return found.get(names.RENEW)  # type: ignore[no-any-return]


def story(worker: Worker, *script: Any, hours: float = 0.5, made: Any = source, end: Any = label) -> Scenario:
    """Both controllers in one process, and the worker that gives tokens."""

    def setup(server: Server) -> None:
        worker.clock = server.clock
        fournos_cluster(server, "c1", content=made(server))

    clock: Any = Now(worker)
    return Scenario(
        fournosclusters(SETTINGS, clock),
        setup,
        script=script,
        others=[tokens_controller(SETTINGS, clock, dial=worker.dial)],
        horizon=hours * 3600,
        end=end,
    )


async def lived(reported: Scenario) -> Server:
    """So long after each action; a renewal falls into every such time."""
    server = Server(VirtualClock())
    reported.setup(server)
    group = Group(server, [reported.controller, *reported.others])
    for action in (lambda server: None, *reported.script):
        action(server)
        await run_to_quiescence(group, horizon=reported.horizon)
    return server


async def ended(reported: Scenario) -> Server:
    return (await run(reported)).server


async def test_the_token_in_a_copy_is_replaced_before_it_ends() -> None:
    worker = Worker()
    server = await lived(story(worker, hours=3 * LIFE / 3600))
    assert label(server) == "true" and label(server, SOURCE) is None
    assert token_in(content(server, SOURCE)).ends < server.clock.now(), "nothing is written to the original"
    assert token_in(content(server, COPY)).ends > server.clock.now()
    assert set(worker.identities) == {ACCOUNT} and worker.warned == []


async def test_it_is_replaced_whatever_fails() -> None:
    def good(server: Server) -> tuple[bool, str | None]:
        return token_in(content(server, COPY)).ends > server.clock.now(), label(server)

    def week(server: Server) -> bytes:
        """Half over; the next token is due long after the run."""
        begun = server.clock.now().timestamp() - 4 * 86400
        return kubeconfig(SERVER, token=jwt(ACCOUNT, server.clock.now(), iat=begun, exp=begun + 7 * 86400))

    case = story(Worker(), made=week, end=good, hours=0.1)
    for disturbed in DISTURBED.values():
        assert await disturbed(case) > 0
    assert good(await ended(case)) == (True, "true")


async def test_a_change_of_labels_brings_no_old_token_back() -> None:
    """The original's token has ended by then: copied again it would cut the worker off."""

    def annotate(server: Server) -> None:
        server.patch(SECRET, SOURCE, {"metadata": {"labels": {"team": "a"}}})

    server = await lived(story(Worker(), annotate, hours=2 * LIFE / 3600))
    assert token_in(content(server, SOURCE)).ends < server.clock.now()
    assert token_in(content(server, COPY)).ends > server.clock.now()


async def test_another_original_takes_the_place_of_a_renewed_copy() -> None:
    rotated: list[bytes] = []

    def rotate(server: Server) -> None:
        rotated.append(source(server, account="another"))
        server.patch(SECRET, SOURCE, {"data": encoded(rotated[0])})

    server = await ended(story(Worker(), rotate, hours=0.1))
    assert content(server, COPY) == rotated[0]


@pytest.mark.parametrize(
    ("token", "labels"),
    [("opaque", {}), (None, {names.RENEW: "false"})],
    ids=["a token without an end", "not wanted"],
)
async def test_other_copies_stay_as_they_are(token: str | None, labels: dict[str, str]) -> None:
    def made(server: Server) -> bytes:
        return kubeconfig(SERVER, token=token) if token else source(server)

    def mark(server: Server) -> None:
        server.patch(SECRET, SOURCE, {"metadata": {"labels": labels}})

    worker = Worker()
    server = await ended(story(worker, mark, made=made, hours=0.1))
    assert label(server) is None and worker.requests == []
    assert content(server, COPY) == content(server, SOURCE)


async def test_a_copy_that_was_made_without_the_label_gets_it() -> None:
    def remove_label(server: Server) -> None:
        server.patch(SECRET, COPY, {"metadata": {"labels": {names.RENEW: None}}})
        server.patch(MULTIKUEUE_CLUSTER, Key("", "c1"), {"metadata": {"annotations": {"seen": "again"}}})

    assert label(await ended(story(Worker(), remove_label, hours=0.1))) == "true"


async def test_a_secret_of_another_with_that_name_is_not_labelled() -> None:
    def setup(server: Server) -> bytes:
        return source(server)

    def take(server: Server) -> None:
        server.patch(SECRET, COPY, {"metadata": {"labels": {names.RENEW: None, names.MADE_FOR: "other"}}})
        server.patch(MULTIKUEUE_CLUSTER, Key("", "c1"), {"metadata": {"annotations": {"seen": "again"}}})

    assert label(await ended(story(Worker(), take, made=setup, hours=0.1))) is None


def test_nothing_of_the_content_is_kept() -> None:
    token = jwt(ACCOUNT, Worker().clock.now())
    data = encoded(kubeconfig(SERVER, token=token))
    kept = project_source({"metadata": {"name": "c1", "namespace": SECRETS, "uid": "u"}, "data": data})
    assert kept["tokenEnds"] and token not in repr(kept) and data[names.KUBECONFIG] not in repr(kept)
