"""Channels: one rendering for all tabs, whoever joins, leaves, is slow or loses a right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from fournos.api.kinds import TASK_RUN
from fournos.engine.kube.errors import ConnectionLostError
from fournos.web.live import channels
from fournos.web.live.channels import (
    AGAIN,
    HEARTBEAT,
    PENDING,
    REST,
    Channels,
    FullError,
    Listener,
    WithdrawnError,
)
from fournos.web.live.following import DELAY, PageWatches, Watched
from fournos.web.live.pieces import CSRF, Piece, Pieces, RenderedRows, digest
from tests.unit.client.world import NS, Api

pytestmark = pytest.mark.looptime


class Board:
    """A page with two pieces, and who renders it."""

    def __init__(self) -> None:
        self.words = {"a": "1", "b": "1"}
        self.revision = 0
        self.rendered: list[str] = []
        self.withdrawn: set[str] = set()
        self.error: Exception | None = None
        self.takes = 0.0
        self.api = Api()
        self.watched: list[Watched] = []

    def change(self, **words: str) -> None:
        self.words |= words
        self.revision += 1

    def pieces(self) -> Mapping[str, Piece]:
        found = Pieces("page", RenderedRows())

        def content() -> str:
            return "".join(str(found(id, caller=lambda word=word: word)) for id, word in self.words.items())

        found("main", "main", caller=content)
        return found.found

    def of(self, person: str):  # type: ignore[no-untyped-def]
        async def render(following: PageWatches) -> Mapping[str, Piece]:
            following.want(self.api, self.watched)
            self.rendered.append(person)
            if self.takes:
                await asyncio.sleep(self.takes)
            if person in self.withdrawn:
                raise WithdrawnError
            if self.error:
                raise self.error
            return self.pieces()

        return render


class Tab:
    def __init__(self, listener: Listener) -> None:
        self.got: list[str] = []
        self.ended = False
        self.slow = asyncio.Event()
        self.slow.set()
        self._task = asyncio.create_task(self._read(listener))

    async def _read(self, listener: Listener) -> None:
        async for message in listener.messages():
            await self.slow.wait()
            self.got.append(message.decode())
        self.ended = True

    def close(self) -> None:
        self._task.cancel()


class Room:
    def __init__(self) -> None:
        self.board = Board()
        self.failed = 0
        self.channels = Channels(most=5, most_each=3, failed=self._count)
        self.stack = AsyncExitStack()

    def _count(self) -> None:
        self.failed += 1

    @asynccontextmanager
    async def tab(self, person: str = "ann", at: str = "", key: str = "k") -> AsyncIterator[Tab]:
        board = self.board
        async with self.channels.listen(key, person, at, board.of(person), lambda: board.revision) as found:
            tab = Tab(found)
            try:
                yield tab
            finally:
                tab.close()

    async def open(self, person: str = "ann", at: str = "", key: str = "k") -> Tab:
        return await self.stack.enter_async_context(self.tab(person, at, key))

    async def change(self, **words: str) -> None:
        self.board.change(**words)
        self.channels.poke()
        await asyncio.sleep(2 * REST)


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    found = Room()
    async with found.stack:
        yield found
    assert not found.channels._open and not found.channels._counts and not found.channels._users


async def test_a_change_is_rendered_once_and_only_what_changed_is_sent(room: Room) -> None:
    at = digest(room.board.pieces())
    tabs = [await room.open(at=at) for _ in range(3)]
    await asyncio.sleep(1)
    assert room.board.rendered == ["ann"] and [tab.got for tab in tabs] == [[], [], []]
    await room.change(b="2")
    assert room.board.rendered == ["ann", "ann"]
    for tab in tabs:
        (message,) = tab.got
        assert (
            '<div id="b">2</div>' in message
            and 'id="a"' not in message
            and 'hx-target="[id=&#39;b&#39;]"' in message
        )
        assert message.startswith(f"id: {digest(room.board.pieces())}\ndata: ")


async def test_a_tab_that_shows_something_else_gets_the_whole_page(room: Room) -> None:
    tab = await room.open(at="of yesterday")
    await asyncio.sleep(1)
    assert len(tab.got) == 1 and '<main id="main">' in tab.got[0]


async def test_a_tab_that_shows_something_newer_than_the_channel_keeps_it(room: Room) -> None:
    """As after a write that no watched object shows: the page that was loaded afterwards is the newer one."""
    old = await room.open("ann", digest(room.board.pieces()))
    await asyncio.sleep(1)
    room.board.words["b"] = "2"
    new = await room.open("ben", digest(room.board.pieces()))
    await asyncio.sleep(1)
    assert room.board.rendered == ["ann", "ben"]
    assert [len(tab.got) for tab in (old, new)] == [1, 1]
    assert all('<div id="b">2</div>' in tab.got[0] and "<main" not in tab.got[0] for tab in (old, new))


async def test_a_tab_that_joins_while_rendering_fails_gets_the_page_later(room: Room) -> None:
    await room.open("ann", digest(room.board.pieces()))
    await asyncio.sleep(1)
    room.board.error = ValueError("no")
    late = await room.open("ben", "of yesterday")
    await asyncio.sleep(AGAIN)
    assert late.got == []
    room.board.error = None
    await asyncio.sleep(2 * AGAIN)
    assert len(late.got) == 1 and "<main" in late.got[0]


async def test_a_change_of_the_page_s_own_objects_is_rendered(room: Room) -> None:
    room.board.watched = [Watched(TASK_RUN, NS, "job=one")]
    tab = await room.open()
    await room.open("ben")
    await asyncio.sleep(2 * DELAY)
    assert room.board.api.open[TASK_RUN] == 1, "both tabs have one watch"
    room.board.rendered.clear()
    tab.got.clear()
    room.board.words["a"] = "2"
    await room.board.api.create(
        TASK_RUN, {"metadata": {"name": "t", "namespace": NS, "labels": {"job": "one"}}}
    )
    await asyncio.sleep(2 * DELAY)
    assert room.board.rendered == ["ann"] and len(tab.got) == 1
    await room.stack.aclose()
    await asyncio.sleep(0)
    assert room.board.api.open[TASK_RUN] == 0, "no tab is open"


async def test_a_burst_is_rendered_once(room: Room) -> None:
    tab = await room.open(at=digest(room.board.pieces()))
    await asyncio.sleep(1)
    for number in range(50):
        room.board.change(a=str(number))
        room.channels.poke()
        await asyncio.sleep(REST / 100)
    await asyncio.sleep(1)
    assert len(room.board.rendered) <= 4
    assert '<div id="a">49</div>' in tab.got[-1]


async def test_nothing_is_rendered_or_sent_while_nothing_changes_but_a_comment(room: Room) -> None:
    tab = await room.open(at=digest(room.board.pieces()))
    await asyncio.sleep(10 * HEARTBEAT + 1)
    room.channels.poke()  # of a kind that the page does not show
    await asyncio.sleep(1)
    assert room.board.rendered == ["ann"] and tab.got == [""] * 10


async def test_a_slow_reader_costs_a_few_messages_and_gets_the_page_as_it_is_then(room: Room) -> None:
    slow, other = [await room.open(at=digest(room.board.pieces())) for _ in range(2)]
    slow.slow.clear()
    for number in range(3 * PENDING):
        await room.change(a=str(number))
    ((channel, _),) = room.channels._open.values()
    assert max(len(one._pending) for one in channel.listeners) <= PENDING
    assert len(other.got) == 3 * PENDING
    slow.slow.set()
    await asyncio.sleep(1)  # without any further change
    assert len(slow.got) == 2
    assert '<main id="main">' in slow.got[-1] and f'<div id="a">{3 * PENDING - 1}</div>' in slow.got[-1]
    await room.change(b="9")
    assert '<div id="b">9</div>' in slow.got[-1] and "<main" not in slow.got[-1]


async def test_a_person_whose_rights_changed_leaves_and_the_others_are_served(room: Room) -> None:
    at = digest(room.board.pieces())
    ann, ben = await room.open("ann", at), await room.open("ben", at)
    await asyncio.sleep(1)
    room.board.withdrawn.add("ann")
    await room.change(a="2")
    assert ann.ended and ann.got == []
    assert not ben.ended and '<div id="a">2</div>' in ben.got[-1]
    await room.change(a="3")
    assert room.board.rendered == ["ann", "ann", "ben", "ben"]


async def test_the_renderer_closes_its_tab_and_the_others_are_served(room: Room) -> None:
    at = digest(room.board.pieces())
    async with room.tab("ann", at):
        ben = await room.open("ben", at)
        await asyncio.sleep(1)
    await room.change(a="2")
    assert room.board.rendered == ["ann", "ben"] and len(ben.got) == 1


async def test_a_rendering_that_failed_is_repeated_without_a_change(room: Room) -> None:
    tab = await room.open(at=digest(room.board.pieces()))
    await asyncio.sleep(1)
    room.board.error = OSError("the API server is away")
    await room.change(a="2")
    assert tab.got == [] and not tab.ended
    room.board.error = None
    await asyncio.sleep(AGAIN + 1)
    assert '<div id="a">2</div>' in tab.got[-1]


async def test_an_unexpected_error_of_an_update_closes_its_tabs_and_the_next_one_is_served(
    room: Room, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tab that went on without updates would show what is old, and its person could not know it."""
    tab = await room.open(at=digest(room.board.pieces()))
    await asyncio.sleep(1)
    with monkeypatch.context() as broken:
        broken.setattr(channels, "changed", lambda before, after: 1 / 0)
        await room.change(a="2")
        await asyncio.sleep(1)
        assert tab.ended
    assert room.failed == 1
    assert "an update failed" in caplog.text and "ZeroDivisionError" in caplog.text
    again = await room.open()
    await asyncio.sleep(AGAIN + 1)
    assert '<div id="a">2</div>' in again.got[-1]


async def test_a_page_that_cannot_be_rendered_is_reported_once(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    tab = await room.open(at=digest(room.board.pieces()))
    await asyncio.sleep(1)
    room.board.error = ConnectionLostError("the API server is away")
    await room.change(a="2")
    assert room.failed == 0 and caplog.text == ""
    room.board.error = ZeroDivisionError("of a template")
    await asyncio.sleep(3 * AGAIN)
    assert room.failed == 1 and caplog.text.count("of a template") == 1 and "Traceback" in caplog.text
    room.board.error = None
    await asyncio.sleep(AGAIN + 1)
    assert '<div id="a">2</div>' in tab.got[-1]
    room.board.error = ZeroDivisionError("again")
    await room.change(a="3")
    assert room.failed == 2 and not tab.ended


async def test_the_last_one_ends_the_channel_and_the_next_one_begins_a_new_one(room: Room) -> None:
    async with room.tab():
        await asyncio.sleep(1)
    assert not room.channels._open and room.channels.streams == 0
    room.board.change(a="2")
    tab = await room.open()
    await asyncio.sleep(1)
    assert '<div id="a">2</div>' in tab.got[-1]


async def test_a_tab_that_is_closed_before_the_first_rendering_leaves_nothing(room: Room) -> None:
    room.board.takes = 100.0
    task = asyncio.create_task(room.open())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not room.channels._open and room.channels.streams == 0


async def test_streams_are_limited_in_all_and_for_each_person(room: Room) -> None:
    for _ in range(3):
        await room.open("ann")
    with pytest.raises(FullError):
        await room.open("ann")
    await room.open("ben")
    await room.open("cho")
    with pytest.raises(FullError):
        await room.open("dan")
    assert room.channels.streams == 5


async def test_close_ends_all_streams_also_those_that_wait_for_a_rendering(room: Room) -> None:
    tab = await room.open()
    await asyncio.sleep(1)
    room.board.takes = 1000.0
    waiting = asyncio.create_task(room.open(key="other"))
    await asyncio.sleep(1)
    await room.channels.close()
    assert (await asyncio.wait_for(waiting, 5)) is not None
    await asyncio.sleep(1)
    assert tab.ended


def test_the_token_of_a_form_is_no_part_of_a_page_s_identity() -> None:
    one, other = Piece(f"<main>{CSRF}</main>", "", ()), Piece("<main></main>", "", ())
    assert digest({"main": one}) == digest({"main": other})
