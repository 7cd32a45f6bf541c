"""Answers are present, absent or unknown, and hold no secret."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fournos.engine.kube.errors import (
    ForbiddenError,
    KubeError,
    ServerError,
)
from fournos.engine.kube.resource import POD, SECRET, Key, Obj, Resource
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    LiveGet,
    LiveList,
    LogTail,
    Present,
    Question,
    SecretFacts,
    SecretShape,
    Unknown,
)
from fournos.engine.runtime.fetch_facts import MAX_LINE, answer
from tests.unit.engine.runtime.toy import TOY, TOY_KEY, make_toy
from tests.world.connection import Connection
from tests.world.server import Server


@pytest.fixture
def server() -> Server:
    server = Server()
    make_toy(server)
    return server


class Listening(Connection):
    """Notes how logs are asked for."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.how: list[dict[str, Any]] = []

    async def logs(self, pod: Key, **how: Any) -> AsyncIterator[str]:
        self.how.append(how)
        return await super().logs(pod, **how)


async def answer_to(server: Server, question: Question) -> Answer:
    return (await answer(Connection(server), [question]))[question]


def make_pod(server: Server, name: str, *containers: str, **annotations: str) -> None:
    metadata = {"namespace": "ns", "name": name, "labels": {"job": "x"}, "annotations": annotations}
    spec = {"containers": [{"name": container} for container in containers]}
    server.create(POD, {"metadata": metadata, "spec": spec})


async def test_objects_and_lists(server: Server) -> None:
    toy = server.get(TOY, TOY_KEY)
    assert await answer_to(server, LiveGet(TOY, TOY_KEY)) == Present(toy)
    assert await answer_to(server, LiveList(TOY, "ns")) == Present((toy,))
    assert await answer_to(server, LiveList(TOY, "elsewhere")) == Present(())
    assert await answer_to(server, LiveGet(TOY, Key("ns", "none"))) == Absent()
    server.unserved.add(TOY)
    assert await answer_to(server, LiveGet(TOY, TOY_KEY)) == Absent(no_kind=True)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ForbiddenError("may not", status=403), Unknown("may not", forbidden=True)),
        (ServerError("down", status=503), Unknown("ServerError: down")),
    ],
)
async def test_what_cannot_be_learnt_is_unknown(error: KubeError, expected: Unknown) -> None:
    class Refusing(Connection):
        async def get(self, resource: Resource, key: Key) -> Obj:
            raise error

    question = LiveGet(TOY, TOY_KEY)
    assert await answer(Refusing(Server()), [question, question]) == {question: expected}


async def test_a_secret_s_shape_has_no_bytes(server: Server) -> None:
    metadata = {"namespace": "ns", "name": "s", "labels": {"a": "b"}, "ownerReferences": [{"uid": "uid-o"}]}
    server.create(SECRET, {"metadata": metadata, "data": {"z": "c2VjcmV0", "a": "c2VjcmV0"}})
    found = await answer_to(server, SecretShape(Key("ns", "s")))
    assert found == Present(SecretFacts("uid-2", frozenset({"uid-o"}), {"a": "b"}, ("a", "z")))
    assert "c2VjcmV0" not in repr(found)


async def test_the_newest_pod_s_last_lines_without_secrets(server: Server) -> None:
    make_pod(server, "old", "main")
    server.clock.advance(60)
    make_pod(server, "new", "main")
    server.logs[Key("ns", "old")] = ["old"]
    server.logs[Key("ns", "new")] = ["first", "password=hunter2", "x" * 5000]
    found = await answer_to(server, LogTail("ns", "job=x", lines=2))
    assert found == Present("password=<hidden>\n" + "x" * MAX_LINE)


async def test_a_long_last_line_is_read_and_searched_in_part(server: Server) -> None:
    make_pod(server, "p", "main")
    api = Listening(server)
    server.logs[Key("ns", "p")] = ["eyJ-" * 2**20]
    begin = time.process_time()
    question = LogTail("ns", "job=x", lines=1)
    found = (await answer(api, [question]))[question]
    assert time.process_time() - begin < 1.0
    assert found == Present(("eyJ-" * MAX_LINE)[:MAX_LINE])
    assert [how["limit_bytes"] for how in api.how] == [2**20]


async def test_a_key_of_many_lines_is_one_secret(server: Server) -> None:
    make_pod(server, "p", "main")
    key = [
        "-----BEGIN RSA PRIVATE KEY-----",
        "MIIEowIBAAKCAQEA7vTq0s",
        "q83Jd8==",
        "-----END RSA PRIVATE KEY-----",
    ]
    server.logs[Key("ns", "p")] = ["first", *key, "last"]
    whole = await answer_to(server, LogTail("ns", "job=x", lines=20))
    assert whole == Present("first\n<hidden>\nlast")
    cut = await answer_to(server, LogTail("ns", "job=x", lines=3))
    assert cut == Present("<hidden>\nlast")


async def test_no_pod_is_absent_and_a_pod_without_log_unknown(server: Server) -> None:
    assert await answer_to(server, LogTail("ns", "job=x")) == Absent()
    make_pod(server, "p", "main")
    assert isinstance(await answer_to(server, LogTail("ns", "job=x")), Unknown)


@pytest.mark.parametrize(
    ("requested", "annotations", "expected"),
    [
        (None, {}, "first"),
        (None, {"kubectl.kubernetes.io/default-container": "second"}, "second"),
        ("third", {}, "third"),
    ],
)
async def test_the_container_is_the_one_asked_for_or_the_main_one(
    server: Server, requested: str | None, annotations: dict[str, str], expected: str
) -> None:
    make_pod(server, "p", "first", "second", **annotations)
    server.logs[Key("ns", "p")] = []
    question = LogTail("ns", "job=x", container=requested)
    api = Listening(server)
    await answer(api, [question])
    assert [how["container"] for how in api.how] == [expected]
