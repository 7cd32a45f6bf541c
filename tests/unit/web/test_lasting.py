"""Answers that last, such as the stream of an open tab: they end with the session and with the right."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import ClientPayloadError

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.errors import ConnectionLostError
from fournos.engine.kube.kinds import SUBJECT_ACCESS_REVIEW
from fournos.engine.runtime import reviewer
from fournos.web import lasting
from fournos.web.identity.members import Ways
from fournos.web.live import channels
from tests.unit.web.readers import HEADER, reader
from tests.unit.web.stage import ADMIN, NS, stage
from tests.waiting import until


async def test_the_stream_of_a_person_whose_right_was_withdrawn_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "HEARTBEAT", 0.05)
    monkeypatch.setattr(lasting, "CHECK", 0.1)
    async with stage(Ways(proxy_header=HEADER)) as site:
        site.may("ann", *ADMIN)
        site.may("ben", *ADMIN)
        ann, ben = [await reader(site, f"t-{name}") for name in ("ann", "ben")]
        site.cluster.rights -= {("ann", *right) for right in ADMIN}
        site.clock.at += 31
        await asyncio.wait_for(ann.task, 60)
        assert not ben.task.done()
        # Without the token, too.
        del site.cluster.users["t-ben"]
        site.clock.at += 61
        await asyncio.wait_for(ben.task, 60)
        assert site.web.channels.streams == 0


def test_a_tab_without_changes_shows_what_may_not_be_read_for_less_than_a_minute() -> None:
    assert lasting.CHECK < channels.HEARTBEAT
    assert reviewer.ALLOWED + channels.HEARTBEAT <= 45


async def test_idle_tabs_of_a_person_cost_one_review(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channels, "HEARTBEAT", 0.02)
    monkeypatch.setattr(lasting, "CHECK", 0.01)
    async with stage(Ways(proxy_header=HEADER)) as site:
        site.may("ann", *ADMIN)
        tabs = [await reader(site, "t-ann") for _ in range(5)]
        asked = len(site.cluster.of(SUBJECT_ACCESS_REVIEW))

        async def beats(count: int) -> int:
            """The reviews during so many comments to each tab."""
            before = [one.text.count(": \n") for one in tabs]
            await until(
                lambda: all(
                    one.text.count(": \n") >= was + count for one, was in zip(tabs, before, strict=True)
                )
            )
            return len(site.cluster.of(SUBJECT_ACCESS_REVIEW)) - asked

        assert await beats(5) == 0
        site.clock.at += reviewer.ALLOWED + 1
        assert await beats(5) == 1
        (asked_for,) = site.cluster.of(SUBJECT_ACCESS_REVIEW)[-1:]
        assert asked_for["spec"]["resourceAttributes"]["verb"] == "list"
        assert asked_for["spec"]["resourceAttributes"]["resource"] == "fournosjobs"
        for one in tabs:
            one.task.cancel()


async def test_a_tab_whose_buttons_are_withdrawn_connects_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channels, "HEARTBEAT", 0.05)
    monkeypatch.setattr(lasting, "CHECK", 0.1)
    monkeypatch.setattr(lasting, "CLASS", 0.1)
    async with stage(Ways(proxy_header=HEADER)) as site:
        site.may("ann", ("list", "*", ""), ("get", "*", ""), ("delete", "*", ""))
        ann = await reader(site, "t-ann")
        site.cluster.rights -= {("ann", "delete", "*", "")}
        site.clock.at += 31
        await asyncio.wait_for(ann.task, 60)


async def test_a_person_of_one_namespace_is_reviewed_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "HEARTBEAT", 0.05)
    monkeypatch.setattr(lasting, "CHECK", 0.1)
    async with stage(Ways(proxy_header=HEADER)) as site:
        site.may("ann", ("get", "fournosjobs", NS), ("list", "fournosjobs", NS))
        site.job("mine")
        site.job("theirs", "other")
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (2,))
        ann = await reader(site, "t-ann")
        assert "mine" in ann.text and "theirs" not in ann.text
        site.cluster.rights.clear()
        site.clock.at += 31
        await asyncio.wait_for(ann.task, 60)


@pytest.mark.parametrize("lost", ["right", "token", "review"])
async def test_a_log_that_is_followed_ends_with_the_right_to_it(
    lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting, "CHECK", 0.1)
    async with stage(Ways(proxy_header=HEADER)) as site:
        site.may("ann", ("get", "fournosjobs", NS))
        async with site.client.get(f"/lines/{NS}", headers={HEADER: "t-ann"}, timeout=None) as answer:
            for _ in range(20):
                assert await answer.content.readline() == b"secret\n"
            if lost == "right":
                site.cluster.rights.clear()
            elif lost == "token":
                del site.cluster.users["t-ann"]
            else:
                site.cluster.error = ConnectionLostError("connection refused")
            site.clock.at += 61
            with pytest.raises(ClientPayloadError):
                while await asyncio.wait_for(answer.content.readline(), 60):
                    pass


async def test_a_download_by_another_right_than_that_to_the_object_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lasting, "CHECK", 0.01)
    async with (
        stage(Ways(proxy_header=HEADER)) as site,
        site.client.get(f"/lines/{NS}", headers={HEADER: "t-ann"}, timeout=None) as answer,
    ):
        for _ in range(20):
            assert await answer.content.readline() == b"secret\n"
