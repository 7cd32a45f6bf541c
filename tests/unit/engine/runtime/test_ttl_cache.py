"""A cache whose entries end by time."""

from __future__ import annotations

from fournos.engine.runtime.reviews import SWEPT, TtlCache


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
