"""The client against a scripted API server."""

from __future__ import annotations

from fournos.kube.resource import Key
from tests.unit.kube.server import JOBS, ScriptedServer, event, ok, page, stream


async def test_list_collects_all_pages_and_asks_for_500_a_page() -> None:
    pages = [page("a", version="7", token="t"), page("b", version="7")]
    async with ScriptedServer(pages) as server, server.client() as client:
        listing = await client.list(JOBS, namespace="a", selector="x=y")
    assert [item["metadata"]["name"] for item in listing.items] == ["a", "b"]
    assert listing.resource_version == "7"
    assert listing.items[0]["kind"] == "FournosJob"
    assert server.seen[0].path == "/apis/fournos.dev/v1/namespaces/a/fournosjobs"
    assert server.seen[0].query == {"limit": "500", "labelSelector": "x=y"}
    assert server.seen[1].query["continue"] == "t"


async def test_watch_yields_events_however_the_bytes_are_cut() -> None:
    raw = event("ADDED", "x", "8") + event("MODIFIED", "x", "9")
    async with ScriptedServer([stream(raw[:10], raw[10:70], raw[70:])]) as server, server.client() as client:
        events = [event async for event in client.watch(JOBS, resource_version="7")]
    assert [(event.type, event.object["metadata"]["resourceVersion"]) for event in events] == [
        ("BOOKMARK", "7"),
        ("ADDED", "8"),
        ("MODIFIED", "9"),
    ]
    query = server.seen[0].query
    assert query["allowWatchBookmarks"] == "true"
    assert 300 <= int(query["timeoutSeconds"]) <= 600


async def test_get_names_the_object() -> None:
    async with ScriptedServer([ok({"metadata": {"name": "x"}})]) as server, server.client() as client:
        assert await client.get(JOBS, Key("ns", "x")) == {"metadata": {"name": "x"}}
    assert server.seen[0].path == "/apis/fournos.dev/v1/namespaces/ns/fournosjobs/x"
