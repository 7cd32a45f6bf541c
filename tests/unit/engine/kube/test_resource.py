"""What is read of an object's metadata."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from fournos.engine.kube.resource import JOB, Obj, controls, newest, owner_reference


def made(name: str, **meta: Any) -> Obj:
    return {"metadata": {"name": name, "uid": f"uid-{name}", **meta}}


def test_an_owner_is_its_uid() -> None:
    owner = made("a")
    child = made("b", ownerReferences=[owner_reference(JOB, owner)])
    assert child["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "a",
            "uid": "uid-a",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert controls(owner, child)
    assert not controls(made("a", uid="another"), child)
    assert not controls(owner, made("c"))


def test_an_owner_that_is_no_controller() -> None:
    owner = made("a")
    reference = owner_reference(JOB, owner, controller=False)
    assert (reference["controller"], reference["blockOwnerDeletion"]) == (False, False)
    assert not controls(owner, made("b", ownerReferences=[reference]))


def test_a_controller_whose_deletion_is_not_blocked() -> None:
    reference = owner_reference(JOB, made("a"), block_deletion=False)
    assert (reference["controller"], reference["blockOwnerDeletion"]) == (True, False)


def test_the_newest_is_the_one_that_was_created_last() -> None:
    times = ("2030-01-02T00:00:00Z", "2030-01-10T00:00:00Z", None)
    old, new, without = (made(str(index), creationTimestamp=time) for index, time in enumerate(times))
    assert newest([old, new, without]) is new
    assert newest([without]) is without
    assert newest([]) is None


@pytest.mark.parametrize("name", ["job-1", "a.b_c~d", "", "a/b", "..%2f", "a b", "käse", "a\n", "a?b#c"])
def test_names_in_a_path_are_quoted(name: str) -> None:
    quoted = quote(name, safe="")
    assert JOB.path(namespace=name or "ns", name=name).split("/")[4:] == [
        "namespaces",
        quoted or "ns",
        "jobs",
        quoted,
    ]
