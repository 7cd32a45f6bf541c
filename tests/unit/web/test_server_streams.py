"""Streams of the server: who gets which change, and how many and how slow readers are served."""

from __future__ import annotations

import asyncio
import re

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.web import streams
from fournos.web.identity.members import Ways
from fournos.web.live import channels
from tests.unit.web.readers import HEADER, reader
from tests.unit.web.stage import ADMIN, NS, stage
from tests.waiting import until


async def test_a_change_reaches_those_who_may_see_it_each_with_their_own_token() -> None:
    async with stage(Ways(proxy_header=HEADER)) as site:
        site.may("ann", *ADMIN)
        site.may("ben", *ADMIN)
        site.cluster.users["t-cho"] = "cho"
        site.may("cho", ("list", "fournosjobs", NS))
        site.job("mine")
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (1,))
        ann, ben, cho = [await reader(site, f"t-{name}") for name in ("ann", "ben", "cho")]
        assert len(site.web.channels._open) == 2
        tokens = {re.findall('name="csrf" value="([^"]+)"', one.text)[0] for one in (ann, ben)}
        assert len(tokens) == 2
        site.job("theirs", "other")
        await until(lambda: "theirs" in ann.text and "theirs" in ben.text)
        await asyncio.sleep(2 * channels.REST)
        assert "theirs" not in cho.text
        for one in (ann, ben, cho):
            one.task.cancel()


async def test_what_a_tab_may_show_no_longer_is_replaced_by_the_reason() -> None:
    async with stage(Ways(proxy_header=HEADER)) as site:
        site.may("ann", *ADMIN)
        site.may("ben", *ADMIN)
        site.job("secret")
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (1,))
        ann, ben = [await reader(site, f"t-{name}") for name in ("ann", "ben")]
        site.cluster.rights -= {("ann", *right) for right in ADMIN}
        site.clock.at += 31
        site.job("another")
        await asyncio.wait_for(ann.task, 60)
        await until(lambda: "another" in ben.text)
        # The tab connects again: no other tab gets its error.
        again = await reader(site, "t-ann")
        await until(lambda: "You may not see this" in again.text)
        assert "secret" not in again.text and "You may not see this" not in ben.text
        for one in (again, ben):
            one.task.cancel()


async def test_more_rights_of_one_person_are_not_shown_to_the_others() -> None:
    """Whoever renders: at the time of the change the first one sees more than the class of the page."""
    async with stage(Ways(proxy_header=HEADER)) as site:
        for name in ("ann", "ben"):
            site.may(name, ("list", "fournosjobs", NS))
        site.job("mine")
        await until(lambda: site.caches.revision([FOURNOS_JOB]) == (1,))
        ann, ben = await reader(site, "t-ann"), await reader(site, "t-ben")
        assert len(site.web.channels._open) == 1
        site.may("ann", *ADMIN)
        site.clock.at += 31
        site.job("theirs", "other")
        site.job("mine-too")
        await asyncio.wait_for(ann.task, 60)
        await until(lambda: "mine-too" in ben.text)
        assert "theirs" not in ben.text
        ben.task.cancel()


async def test_ten_thousand_streams_of_one_person_are_twenty() -> None:
    async with stage(Ways(proxy_header=HEADER), streams=30) as site:
        site.cluster.users |= {f"t-{number}": f"user-{number}" for number in range(20)}
        for user in site.cluster.users.values():
            site.may(user, *ADMIN)
        open_ = [await reader(site, "t-ann") for _ in range(20)]
        statuses = []
        for _ in range(20):
            site.clock.at += 1
            status, _ = await site.get("/live?to=/names", headers={HEADER: "t-ann"})
            statuses.append(status)
        assert statuses == [503] * 20
        async with site.client.get("/live?to=/names", headers={HEADER: "t-ann"}) as answer:
            assert answer.headers["Retry-After"] == "5"
        open_ += [await reader(site, f"t-{number}") for number in range(10)]
        assert (await site.get("/live?to=/names", headers={HEADER: "t-15"}))[0] == 503
        assert (await site.get("/names", headers={HEADER: "t-15"}))[0] == 200
        assert site.web.channels.streams == 30
        for one in open_:
            one.task.cancel()
        await until(lambda: site.web.channels.streams < 30, limit=60)


async def test_a_reader_that_takes_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SLOW", 0.5)
    async with stage(Ways(proxy_header=HEADER)) as site:
        site.may("ann", *ADMIN)
        await site.get("/names", headers={HEADER: "t-ann"})
        _, writer = await asyncio.open_connection("127.0.0.1", site.client.port)
        writer.write(b"GET /live?to=/names HTTP/1.1\r\nHost: a\r\nX-Token: t-ann\r\n\r\n")
        await until(lambda: site.web.channels.streams == 1)
        for number in range(60):
            site.job(f"job-{number}-" + "x" * 200_000)
            if not site.web.channels.streams:
                break
            await asyncio.sleep(0.25)
        await until(lambda: site.web.channels.streams == 0, limit=60)
        writer.close()
