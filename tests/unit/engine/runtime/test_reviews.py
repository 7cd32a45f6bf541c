"""What a user may do: by the rules of a namespace, else by reviews, a few at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.runtime.decision import User
from fournos.engine.runtime.reviews import AT_ONCE, SWEPT, Reviewer, Rules, TtlCache
from tests.waiting import until

# --- who may what -----------------------------------------------------------------------------------

JOBS = {"verbs": ["get", "list"], "apiGroups": ["fournos.dev"], "resources": ["fournosjobs"]}


@pytest.mark.parametrize(
    ("rule", "verb", "group", "resource", "allowed"),
    [
        ({}, "list", "fournos.dev", "fournosjobs", True),
        ({}, "delete", "fournos.dev", "fournosjobs", False),
        ({}, "list", "", "fournosjobs", False),
        ({}, "list", "fournos.dev", "fournosjobs/status", False),
        ({"verbs": ["*"]}, "delete", "fournos.dev", "fournosjobs", True),
        ({"apiGroups": ["*"]}, "get", "batch", "fournosjobs", True),
        ({"resources": ["*"]}, "get", "fournos.dev", "fournosjobs/status", True),
        ({"resources": ["*/status"]}, "get", "fournos.dev", "fournosjobs/status", True),
        ({"resources": ["*/status"]}, "get", "fournos.dev", "fournosjobs", False),
        ({"resources": ["fournosjobs/status"]}, "get", "fournos.dev", "fournosjobs", False),
        ({"resourceNames": ["mine"]}, "get", "fournos.dev", "fournosjobs", False),
        ({"resources": None, "verbs": None}, "get", "fournos.dev", "fournosjobs", False),
    ],
)
def test_a_rule_covers_what_it_covers_in_rbac(
    rule: dict[str, Any], verb: str, group: str, resource: str, allowed: bool
) -> None:
    rules = Rules.of({"status": {"incomplete": False, "resourceRules": [{**JOBS, **rule}]}})
    assert rules.allow(verb, group, resource) == allowed == rules.allow(verb, group, resource)


@pytest.mark.parametrize("status", [{}, {"incomplete": True, "resourceRules": [JOBS]}, None])
def test_rules_that_may_not_be_all_are_not_complete(status: Obj | None) -> None:
    assert not Rules.of({"status": status}).complete


def test_equal_rules_of_many_namespaces_are_in_memory_once() -> None:
    """A person with a role in a thousand namespaces takes no memory for each."""

    def review(name: str) -> Obj:
        own = {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": [name]}
        return {"status": {"incomplete": False, "resourceRules": [{**JOBS}, own]}}

    assert Rules.of(review("a")) is Rules.of(review("b"))
    assert Rules.of({"status": {"incomplete": True, "resourceRules": [JOBS]}}).rules == ()


async def test_many_questions_of_one_user_delay_no_other() -> None:
    class Server:
        """Answers ben alone."""

        def __init__(self) -> None:
            self.waiting = 0

        async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
            if obj["spec"]["user"] != "ben":
                self.waiting += 1
                await asyncio.Event().wait()
            return {"status": {"allowed": True}}

    server: Any = Server()
    reviewer = Reviewer(server, monotonic=asyncio.get_running_loop().time)

    def attributes(namespace: str) -> dict[str, str]:
        return {"verb": "list", "resource": "fournosjobs", "namespace": namespace}

    asked = [
        asyncio.create_task(reviewer.may(User("ann"), attributes(f"team-{number}"))) for number in range(50)
    ]
    await until(lambda: server.waiting == AT_ONCE)
    assert await reviewer.may(User("ben"), attributes("team-1"))
    assert server.waiting == AT_ONCE
    for task in (*asked, *reviewer._asking.values()):
        task.cancel()
    await asyncio.gather(*asked, *reviewer._asking.values(), return_exceptions=True)


# --- answers that are kept --------------------------------------------------------------------------
# A cache whose entries end by time.


def test_what_has_ended_is_not_kept_until_the_cache_is_full() -> None:
    now = 0.0
    cache: TtlCache[int, str] = TtlCache(1000, monotonic=lambda: now)
    for number in range(100):
        cache.put(number, "short", 5)
    cache.put(100, "long", 10 * SWEPT)
    now = SWEPT
    assert cache.get(0) is None and cache.get(100) == "long"
    cache.put(101, "new", 5)
    assert sorted(cache._kept) == [100, 101]


def test_a_full_cache_loses_what_has_ended_and_then_its_oldest_entry() -> None:
    now = 0.0
    cache: TtlCache[str, int] = TtlCache(2, monotonic=lambda: now)
    cache.put("a", 1, 5)
    cache.put("b", 2, 50)
    now = 6.0
    cache.put("c", 3, 50)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (None, 2, 3)
    cache.put("d", 4, 50)
    assert (cache.get("b"), cache.get("c"), cache.get("d")) == (None, 3, 4)
