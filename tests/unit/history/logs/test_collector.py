"""Logs are read once, when their containers have ended, and stored whole, masked and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from fournos.engine.kube.errors import ForbiddenError, InvalidError, NotFoundError, ServerError
from fournos.engine.kube.resource import Key
from fournos.history.logs import collector
from fournos.history.logs.collector import AT_ONCE, TAIL, LogCollector, MaskedText, lines_of, masked_text
from fournos.history.logs.stored import ContainerLog
from fournos.history.records import Identity
from fournos.history.store.database import StoreUnavailableError
from tests.unit.history.logs.stage import KEY, RUN, Kubelet, MemoryBlobs, MemoryRows, container

pytestmark = pytest.mark.looptime


class Stage:
    """A collector on a server and stores in memory, which outlive it."""

    def __init__(self) -> None:
        self.kubelet, self.rows, self.blobs = Kubelet(), MemoryRows(), MemoryBlobs()
        self.finished: list[Key] = []
        self.over = asyncio.Event()
        self.most = 10**6
        self.start()

    def start(self) -> None:
        """A new process."""

        async def rows() -> MemoryRows:
            return self.rows

        made: Any = LogCollector
        self.collector: LogCollector = made(rows, self.blobs, self.most, finished=self.finish)

    def finish(self, key: Key) -> None:
        self.finished.append(key)
        self.over.set()

    async def store(self, *containers: ContainerLog) -> None:
        """Has the logs stored, and waits for it, in virtual time."""
        server: Any = self.kubelet
        self.over.clear()
        self.collector.store(KEY, RUN, containers, server)
        async with asyncio.timeout(10**6):
            await self.over.wait()

    def text(self, one: ContainerLog) -> str:
        log, key = self.rows.stored[one.id]
        text = lines_of(self.blobs.data[key]).read()
        assert len(text.encode()) == log.bytes
        return text


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_a_log_is_stored_as_one_object(stage: Stage) -> None:
    one, empty = container(), container("step-empty")
    stage.kubelet.print(one, "start", "end")
    stage.kubelet.print(empty)
    await stage.store(one)
    log, key = stage.rows.stored[one.id]
    assert (stage.text(one), log.truncated, log.failing_line) == ("start\nend\n", False, None)
    assert stage.rows.claimed == {key: len(stage.blobs.data[key])}, "it is named before it is written"
    assert stage.collector.stored(RUN.uid) == {one.id} and stage.finished == [KEY]
    await stage.store(one, empty)
    assert stage.kubelet.requests == [("pod", "step-main"), ("pod", "step-empty")]
    assert stage.text(empty) == ""


async def test_it_is_read_once_also_by_a_new_process(stage: Stage) -> None:
    one = container()
    stage.kubelet.print(one, "x")
    await stage.store(one)
    stage.start()
    assert stage.collector.stored(RUN.uid) == frozenset()
    await stage.store(one)
    assert len(stage.kubelet.requests) == 1 and stage.collector.stored(RUN.uid) == {one.id}


async def test_the_first_failing_line_is_found_in_what_is_stored(stage: Stage) -> None:
    one, fine = container("step-a", code=2), container("step-b")
    stage.kubelet.print(one, "start", "ValueError: TOKEN=abcdefgh", "bye")
    stage.kubelet.print(fine, "ValueError: x")
    await stage.store(one, fine)
    log, _ = stage.rows.stored[one.id]
    assert (log.failing_line, log.failing_text) == (2, "ValueError: TOKEN=<hidden>")
    assert stage.rows.stored[fine.id][0].failing_line is None


@pytest.mark.parametrize(
    "error",
    [ServerError("x", status=500), StoreUnavailableError("x"), OSError("x"), InvalidError("x", status=400)],
)
@pytest.mark.parametrize("place", ["kubelet", "rows", "blobs"])
async def test_it_is_tried_again(stage: Stage, error: Exception, place: str) -> None:
    one = container()
    stage.kubelet.print(one, "x")
    getattr(stage, place).errors += [error, error]
    await stage.store(one)
    assert stage.text(one) == "x\n"


@pytest.mark.parametrize(
    "errors",
    [
        [NotFoundError("x", status=404)],
        [ForbiddenError("x", status=403)],
        [InvalidError("x", status=400)] * 5,
    ],
)
async def test_a_log_that_is_gone_holds_nothing_up(stage: Stage, errors: list[Exception]) -> None:
    gone, one = container("step-gone"), container()
    stage.kubelet.print(gone, "y")
    stage.kubelet.print(one, "x")
    stage.kubelet.errors += errors
    await stage.store(gone, one)
    assert set(stage.rows.stored) == {one.id}
    assert stage.collector.stored(RUN.uid) == {gone.id, one.id}


async def test_a_log_of_a_run_that_was_deleted_is_not_stored(stage: Stage) -> None:
    stage.rows.runs.clear()
    one = container()
    stage.kubelet.print(one, "x")
    await stage.store(one)
    assert not stage.blobs.data and not stage.rows.stored


async def test_a_run_has_so_many_bytes_and_the_end_of_each_log(stage: Stage) -> None:
    stage.most = 1000
    stage.start()
    first, second = container("step-a"), container("step-b")
    stage.kubelet.print(first, *(["0123456"] * 50))
    stage.kubelet.print(second, *(f"{number:07}" for number in range(20_000)))
    await stage.store(first, second)
    lines = stage.text(second).splitlines()
    assert lines[:75] == [f"{number:07}" for number in range(75)], "600 of 1000 bytes were left"
    assert lines[75].startswith("[fournos: the run printed more") and lines[-1] == "0019999"
    assert len(stage.text(second)) <= 600 + 100 + TAIL
    assert not stage.rows.stored[first.id][0].truncated
    assert stage.rows.stored[second.id][0].truncated


async def test_one_that_cannot_be_read_in_time_is_tried_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, asked = container(), 0

    async def hangs(pod: Key, *, container: str) -> Any:
        nonlocal asked
        asked += 1
        if asked == 1:
            await asyncio.Event().wait()
        return await Kubelet.log_stream(stage.kubelet, pod, container=container)

    stage.kubelet.print(one, "x")
    monkeypatch.setattr(stage.kubelet, "log_stream", hangs)
    await stage.store(one)
    assert stage.text(one) == "x\n" and asked == 2


async def test_a_log_that_cannot_be_stored_takes_no_other_with_it(stage: Stage) -> None:
    bad, good = container("step-bad"), container("step-good")
    for one in (bad, good):
        stage.kubelet.print(one, "x")
    stage.rows.errors.append(ValueError("a fault of ours"))
    await stage.store(bad, good)
    assert set(stage.rows.stored) == {good.id}
    assert stage.collector.stored(RUN.uid) == {bad.id, good.id}, "nothing waits for it"


async def test_the_logs_of_one_namespace_leave_room_for_others(stage: Stage) -> None:
    """Those of many of its runs come slowly."""
    slow: Any = SimpleNamespace(log_stream=lambda *_, **__: asyncio.Event().wait())
    for number in range(AT_ONCE + 1):
        run = Identity("here", "slow", f"uid-{number + 10}")
        stage.collector.store(Key("slow", f"job-{number}"), run, [container(pod=f"p-{number}")], slow)
    await asyncio.sleep(1)
    one = container()
    stage.kubelet.print(one, "x")
    stage.collector.store(KEY, RUN, [one], stage.kubelet)  # type: ignore[arg-type]
    await asyncio.sleep(5)
    assert set(stage.rows.stored) == {one.id}


async def test_a_run_that_is_gone_is_forgotten(stage: Stage) -> None:
    one = container()
    stage.kubelet.print(one, "x")
    await stage.store(one)
    pod: dict[str, Any] = {"metadata": {"name": "pod", "uid": "pod-uid"}}
    pod["metadata"]["creationTimestamp"] = "2030-01-01T00:00:00Z"
    pod["status"] = {"containerStatuses": [{"name": "step-main", "state": {"terminated": {"exitCode": 0}}}]}
    assert not stage.collector.behind(pod)
    stage.collector.forget(RUN.uid)
    assert stage.collector.behind(pod) and stage.collector.stored(RUN.uid) == frozenset()
    stage.collector.forget(RUN.uid)


async def test_nothing_is_left_running(stage: Stage) -> None:
    stage.kubelet.errors += [ServerError("x", status=500)] * 10**4
    running = asyncio.create_task(stage.collector.run())
    server: Any = stage.kubelet
    stage.collector.store(KEY, RUN, [container()], server)
    await asyncio.sleep(60)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    asked = len(stage.kubelet.requests)
    await asyncio.sleep(600)
    assert len(stage.kubelet.requests) == asked > 1


# --- masking --------------------------------------------------------------------------------------------

PEM = ["-----BEGIN RSA PRIVATE KEY-----", *["MIIEow"] * 20, "-----END RSA PRIVATE KEY-----"]


async def text_of(lines: list[str], piece: int) -> str:
    whole = "".join(f"{line}\n" for line in lines).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(whole), piece):
            yield whole[at : at + piece]

    made: Any = pieces()
    return lines_of((await masked_text(made, 10**6)).packed()).read()


@pytest.mark.parametrize("piece", [1, 7, 100, 10**6])
@pytest.mark.parametrize("read", [20, 300, 10**6])
async def test_secrets_are_hidden_wherever_the_pieces_end(
    piece: int, read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "_PIECE", read)
    monkeypatch.setattr(collector, "BEYOND", 40)
    text = await text_of(["hello", "export TOKEN=abcdefghijkl", "see https://me:hunter22@host"], piece)
    assert text == "hello\nexport TOKEN=<hidden>\nsee https://me:<hidden>@host\n"


@pytest.mark.parametrize("piece", [10, 10**6])
async def test_a_private_key_is_hidden(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "_PIECE", 150)
    monkeypatch.setattr(collector, "BEYOND", 40)
    text = await text_of(["key:", *PEM, "after"], piece)
    assert "MIIEow" not in text and text.startswith("key:\n<hidden>") and text.endswith("after\n")


BLOCKS = {
    "of YAML": ["client_secret: |", "  first-Zk9x", "  second-Zk9x", "  third-Zk9x"],
    "of bytes": ["data:", f"  one: {'Zk9x' * 5}", f"  two: {'Zk9x' * 5}"],
    "of JSON": ['"data": {', '  "one": "Zk9x",', '  "two": "Zk9x"', "}"],
    "on the next line": ['"password":', '  "Zk9x",'],
}


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("before", range(12))
async def test_a_block_is_hidden_wherever_the_pieces_end(
    block: str, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "_PIECE", 100)
    monkeypatch.setattr(collector, "BEYOND", 80)
    lines = [f"line {number:04}" for number in range(40)]
    text = await text_of([*lines[:before], *BLOCKS[block], *lines[before:]], 10)
    assert "Zk9x" not in text
    assert [line for line in text.splitlines() if line.startswith("line")] == lines


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("most", range(0, 200, 11))
def test_a_block_is_hidden_where_a_log_is_cut(block: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of its beginning, and at the beginning of its end."""
    monkeypatch.setattr(collector, "BEYOND", 120)
    monkeypatch.setattr(collector, "TAIL", 60)
    text = MaskedText(most)
    whole = ["line 1", *BLOCKS[block], "line 2", "line 3", *BLOCKS[block], "line 4"]
    text.add("".join(f"{line}\n" for line in whole).encode())
    stored = lines_of(text.packed()).read()
    assert "Zk9x" not in stored and stored.endswith("line 4\n")


def test_half_of_a_secret_is_left_out() -> None:
    text = MaskedText(30)
    text.add(b"first line\ntoken is ghp_" + b"A" * 30 + b"\nlast\n")
    assert "ghp_" not in lines_of(text.packed()).read()


def test_bytes_that_are_no_text() -> None:
    text = MaskedText(100)
    text.add(b"\xff\xfe ok\n")
    assert lines_of(text.packed()).read() == "\ufffd\ufffd ok\n"
