"""The cache: what it takes, what it ignores, what it can find."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from fournos.engine.kube.resource import Key, Obj, owner_uids
from fournos.engine.kube.store import LAST_APPLIED, Change, Store

X = Key("a", "x")


def thing(version: str, name: str = "x", **meta: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "a", "name": name, "uid": f"u-{name}", "resourceVersion": version, **meta}
    }


def filled(*items: Obj, version: str = "10", **options: Any) -> Store:
    store = Store(**options)
    store.replace([store.slim(item) for item in items], version)
    return store


def version(store: Store, key: Key = X) -> str | None:
    obj = store.get(key)
    return None if obj is None else str(obj["metadata"]["resourceVersion"])


def test_a_new_store_is_served_but_not_synced() -> None:
    store = Store()
    assert (store.served, store.synced, len(store), list(store)) == (True, False, 0, [])


def test_list_then_events() -> None:
    store = filled(thing("5"))
    assert store.synced
    assert store.observe("MODIFIED", thing("11")) == Change("MODIFIED", thing("5"), thing("11"))
    assert store.observe("ADDED", thing("12", "y")) == Change("ADDED", None, thing("12", "y"))
    assert store.observe("DELETED", thing("13")) == Change("DELETED", thing("11"), None)
    assert [obj["metadata"]["name"] for obj in store] == ["y"]


def test_relist_repairs_a_delete_that_was_never_seen() -> None:
    store = filled(thing("5"), thing("6", "y"))
    assert store.replace([thing("6", "y")], "20") == [Change("DELETED", thing("5"), None)]
    assert version(store) is None


def test_relist_reports_only_what_differs() -> None:
    store = filled(thing("5"), thing("6", "y"))
    changes = store.replace([thing("7"), thing("6", "y"), thing("9", "z")], "20")
    assert [(change.type, change.new and change.new["metadata"]["name"]) for change in changes] == [
        ("MODIFIED", "x"),
        ("ADDED", "z"),
    ]


def test_relist_with_lower_versions_wins_after_a_restored_etcd() -> None:
    store = filled(thing("50"), version="60")
    store.replace([thing("5")], "7")
    assert version(store) == "5"
    store.assume(thing("8"))
    assert version(store) == "8"


# --- assume ------------------------------------------------------------------------------------------


def test_assume_is_seen_at_once_and_its_echo_is_no_change() -> None:
    store = filled(thing("5"))
    store.assume(thing("11"))
    assert version(store) == "11"
    assert store.observe("MODIFIED", thing("11")) is None


def test_an_event_older_than_the_assumed_object_is_ignored() -> None:
    store = filled(thing("5"))
    store.assume(thing("12"))
    assert store.observe("MODIFIED", thing("11")) is None
    assert version(store) == "12"
    assert store.observe("MODIFIED", thing("13")) is not None


def test_versions_compare_as_numbers() -> None:
    store = filled(thing("9"), version="9")
    store.assume(thing("10"))
    assert version(store) == "10"
    assert store.observe("MODIFIED", thing("100")) is not None


@pytest.mark.parametrize(
    ("seen", "assumed", "expected"),
    [
        (lambda store: store.observe("MODIFIED", thing("12")), thing("11"), "12"),
        (lambda store: store.observe("DELETED", thing("12")), thing("11"), None),
        (lambda store: store.observe("DELETED", thing("12")), thing("13", uid="new"), "13"),
        (lambda store: store.replace([], "20"), thing("11"), None),
    ],
    ids=["changed since", "deleted since", "made anew after its deletion", "not in a later list"],
)
def test_assume_does_not_go_back_behind_what_was_seen(seen: Any, assumed: Obj, expected: str | None) -> None:
    store = filled(thing("5"))
    seen(store)
    store.assume(assumed)
    assert version(store) == expected


def test_nor_what_the_watch_has_passed() -> None:
    store = filled()
    store.bookmark(30)
    store.assume(thing("11"))
    assert version(store) is None


def test_the_late_delete_of_its_predecessor_leaves_an_assumed_object() -> None:
    store = filled(thing("5"))
    store.assume(thing("13", uid="new"))
    assert store.observe("DELETED", thing("12")) is None
    assert version(store) == "13"


def test_a_list_older_than_an_assumed_object_leaves_it() -> None:
    store = filled(thing("5"))
    store.assume(thing("21"))
    store.assume(thing("22", "made"))
    assert store.replace([thing("6")], "20") == []
    assert (version(store), version(store, Key("a", "made"))) == ("21", "22")
    assert store.replace([], "30") == [
        Change("DELETED", thing("21"), None),
        Change("DELETED", thing("22", "made"), None),
    ]


def test_a_watched_object_newer_than_the_list_goes() -> None:
    """Only own writes may outlive a list: a restored etcd has no other objects."""
    store = filled(thing("5"))
    store.observe("MODIFIED", thing("50"))
    assert store.replace([], "20") == [Change("DELETED", thing("50"), None)]


def test_objects_without_a_version_are_taken() -> None:
    store = Store()
    store.assume({"metadata": {"namespace": "a", "name": "x"}})
    assert store.get(X) is not None


# --- indexes and projections -------------------------------------------------------------------------


def by_job(obj: Obj) -> list[str]:
    value = (obj["metadata"].get("labels") or {}).get("job")
    return [] if value is None else [value]


def test_indexes_follow_changes_and_deletes() -> None:
    store = filled(
        thing("5", labels={"job": "one"}, ownerReferences=[{"uid": "o1"}, {"uid": "o2"}]),
        indexes={"job": by_job, "owner": owner_uids},
    )
    assert [version(store)] == [obj["metadata"]["resourceVersion"] for obj in store.by("owner", "o2")]
    store.observe("MODIFIED", thing("11", labels={"job": "two"}, ownerReferences=[{"uid": "o1"}]))
    assert store.by("job", "one") == () == store.by("owner", "o2")
    assert store.by("job", "two") == store.by("owner", "o1") == (store.get(X),)
    store.observe("DELETED", thing("12"))
    assert store.by("job", "two") == () == store.by("owner", "o1")


def test_what_is_forgotten_is_in_no_index_and_comes_back_with_its_next_event() -> None:
    of_a, of_b = {"labels": {"job": "a"}}, {"labels": {"job": "b"}}
    store = filled(
        thing("5", **of_a), thing("6", "y", **of_a), thing("7", "z", **of_b), indexes={"job": by_job}
    )
    store.forget("job", "a")
    store.forget("job", "nothing")
    assert (store.values("job"), [obj["metadata"]["name"] for obj in store]) == (("b",), ["z"])
    assert store.observe("DELETED", thing("11", "y", **of_a)) is None
    assert store.observe("MODIFIED", thing("12", **of_a)) == Change("ADDED", None, thing("12", **of_a))
    assert store.values("job") == ("b", "a")


def test_an_unknown_index_is_an_error() -> None:
    with pytest.raises(KeyError, match="nope"):
        filled().by("nope", "x")


def test_what_no_decision_reads_is_not_kept_and_the_given_object_not_changed() -> None:
    obj = thing("11", managedFields=[{"a": 1}], annotations={LAST_APPLIED: "{}", "keep": "1"})
    store = filled(obj)
    kept = store.get(X)
    assert kept is not None
    assert "managedFields" not in kept["metadata"]
    assert kept["metadata"]["annotations"] == {"keep": "1"}
    assert obj["metadata"]["managedFields"]
    assert LAST_APPLIED in obj["metadata"]["annotations"]


def test_the_projection_is_what_is_kept_from_every_source() -> None:
    def project(obj: Obj) -> Obj:
        return {"metadata": obj["metadata"], "phase": obj.get("phase")}

    store = filled({**thing("5"), "phase": "A", "spec": 1}, project=project)
    assert store.get(X) == {**thing("5"), "phase": "A"}
    store.observe("MODIFIED", {**thing("11"), "phase": "B", "spec": 1})
    assert store.get(X) == {**thing("11"), "phase": "B"}
    store.assume({**thing("12"), "phase": "C", "spec": 1})
    assert store.get(X) == {**thing("12"), "phase": "C"}


def test_an_object_that_the_projection_or_an_index_cannot_read_is_kept_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def project(obj: Obj) -> Obj:
        return {"metadata": obj["metadata"], "phase": obj["status"]["phase"]}

    def values(obj: Obj) -> list[str]:
        return [obj["phase"]]

    with caplog.at_level(logging.ERROR):
        store = filled({**thing("5"), "secret": "s3cret"}, project=project, indexes={"phase": values})
    assert store.get(X) == {**thing("5"), "secret": "s3cret"}
    assert "a/x" in caplog.text
    assert "s3cret" not in caplog.text
    store.observe("MODIFIED", {**thing("11"), "status": {"phase": "Fine"}})
    assert len(store.by("phase", "Fine")) == 1


def test_clear_reports_a_delete_for_each() -> None:
    store = filled(thing("5"), indexes={"owner": owner_uids})
    assert store.clear() == [Change("DELETED", thing("5"), None)]
    assert len(store) == 0


def test_iterating_survives_changes() -> None:
    store = filled(thing("5"), thing("6", "y"))
    for obj in store:
        store.observe("DELETED", {**obj, "metadata": {**obj["metadata"], "resourceVersion": "11"}})
    assert len(store) == 0
