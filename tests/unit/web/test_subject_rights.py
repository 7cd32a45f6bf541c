"""Which persons are shown the same page: the class of a person's rights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Resource
from fournos.engine.runtime.decision import User
from fournos.web.pages.benchmarks import RESOURCE
from fournos.web.rights import Questions, SubjectRights


class Reviews:
    """Answers with the rights (user, verb, resource, namespace) that there are."""

    def __init__(self, *rights: tuple[str, str, str, str]) -> None:
        self.rights = set(rights)

    async def may(self, user: User, attributes: Mapping[str, str], *, own: Any) -> bool:
        where = attributes.get("namespace", "")
        return (user.name, attributes["verb"], attributes["resource"], where) in self.rights


JOBS = [(name, verb, "fournosjobs", "perf") for name in ("ann", "ben") for verb in ("get", "list")]
HISTORY = ("ann", "list", "benchmarks", "perf")


def questions(*spaces: str, home: str = "") -> Questions:
    def namespaces(kind: Resource) -> tuple[str, ...]:
        return spaces if kind == FOURNOS_JOB else ()

    return Questions((FOURNOS_JOB,), namespaces, home=home)


async def classes(asked: Questions, *rights: tuple[str, str, str, str]) -> set[str]:
    reviews: Any = Reviews(*JOBS, *rights)
    people = [
        SubjectRights(reviews, User(name), asked, own=None)  # type: ignore[arg-type]
        for name in ("ann", "ben")
    ]
    for person in people:
        await person.may("list", RESOURCE, "perf")
    return {await person.permission_class() for person in people}


async def test_a_right_to_what_is_not_watched_tells_persons_apart() -> None:
    assert len(await classes(questions("perf"))) == 1, "the same rights"
    assert len(await classes(questions("perf"), HISTORY)) == 2, "in a namespace with jobs"
    assert len(await classes(questions(home="perf"), HISTORY)) == 2, "before there are any"
