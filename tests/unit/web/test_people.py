"""Who a request comes from, and what that person may see and do."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Mapping, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.errors import ConnectionLostError
from fournos.engine.kube.resource import (
    SELF_SUBJECT_RULES_REVIEW,
    SUBJECT_ACCESS_REVIEW,
    TOKEN_REVIEW,
    Resource,
)
from fournos.engine.queueing.kinds import LOCAL_QUEUE
from fournos.engine.runtime.decision import User
from fournos.web.pages.benchmarks import RESOURCE
from fournos.web.people import TrustedProxy, permitted
from fournos.web.rights import RUNS, Permitted, Questions, SubjectRights, home, recorded_namespaces
from fournos.web.site import Call
from tests.unit.client.world import NS as WORLD
from tests.unit.client.world import SPEC, Api
from tests.unit.web.page import visit
from tests.unit.web.stage import ADMIN, HEADER, NS, Stage, stage
from tests.waiting import until

SECRET = "a secret of the proxy"
MAY = {"oidc:team"}


@pytest.fixture
async def site() -> AsyncIterator[Stage]:
    async with stage() as found:
        yield found


@pytest.fixture
def proxy(tmp_path: Path) -> TrustedProxy:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    return TrustedProxy(tmp_path / "secret")


def named(user: str = "ann", groups: str = "", *, secret: str = SECRET) -> dict[str, str]:
    """The headers of oauth2-proxy with --pass-basic-auth and --pass-user-headers."""
    shown = base64.b64encode(f"{user}:{secret}".encode()).decode()
    given = {"X-Forwarded-Groups": groups} if groups else {}
    return {"Authorization": f"Basic {shown}", "X-Forwarded-User": user, **given}


# --- tokens --------------------------------------------------------------------------------------


async def test_without_a_proxy_the_page_says_what_is_missing(site: Stage) -> None:
    status, text = await site.get("/")
    assert status == 401 and "<nav" not in text and 'class="user"' not in text
    assert "puts a proxy with logins in front, such as oauth2-proxy" in text
    assert site.cluster.reviews == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer t-ann"},
        {"authorization": "bearer t-ann"},
        {HEADER: "t-ann"},
        {HEADER: "t-ben", "Authorization": "Bearer t-ann"},
    ],
)
async def test_a_token_that_a_proxy_passes_on_is_the_person_s(site: Stage, headers: dict[str, str]) -> None:
    site.may("ann", *ADMIN)
    status, text = await site.get("/", headers=headers)
    assert status == 200 and ">ann</span>" in text
    assert site.cluster.bearers == ["t-ann"]


@pytest.mark.parametrize("token", ["stranger", "a b"])
async def test_an_invalid_token_is_refused_with_that_reason(site: Stage, token: str) -> None:
    status, text = await site.get("/", headers={HEADER: token})
    assert status == 401 and "not valid in this cluster" in text


async def test_a_token_that_was_withdrawn_is_refused_within_a_minute(site: Stage) -> None:
    site.may("ann", *ADMIN)
    await site.login()
    assert (await site.get("/"))[0] == 200
    del site.cluster.users["t-ann"]
    site.clock.at += 61
    assert (await site.get("/"))[0] == 401


async def test_a_flood_of_tokens_does_not_reach_the_api_server(site: Stage) -> None:
    site.cluster.hold = asyncio.Event()
    asked = [asyncio.create_task(site.get("/", headers={HEADER: f"guess-{number}"})) for number in range(40)]
    await until(lambda: sum(task.done() for task in asked) == 32)
    site.cluster.hold.set()
    statuses = [status for status, _ in await asyncio.gather(*asked)]
    assert (statuses.count(429), statuses.count(401)) == (32, 8)
    assert len(site.cluster.of(TOKEN_REVIEW)) == 8


# --- a proxy that names users ------------------------------------------------------------------------


async def test_a_proxy_with_the_secret_names_a_user_who_is_impersonated(proxy: TrustedProxy) -> None:
    async with stage(proxy) as site:
        site.may("oidc:ann", *ADMIN)
        site.cluster.groups_to_impersonate = MAY
        status, text = await site.get("/", headers=named(groups="team,others"))
        assert status == 200 and ">oidc:ann</span>" in text
        assert site.cluster.impersonated == [
            (("Impersonate-User", "oidc:ann"), ("Impersonate-Group", "oidc:team"))
        ]
        asked = site.cluster.of(SUBJECT_ACCESS_REVIEW)[0]["spec"]
        assert (asked["user"], asked["groups"]) == ("oidc:ann", ["oidc:team", "system:authenticated"])
        assert site.cluster.of(TOKEN_REVIEW) == []
        for _ in range(3):
            await site.get("/", headers=named(groups="team,others"))
        assert site.cluster.own_reviews == [SELF_SUBJECT_RULES_REVIEW], "each request costs a review"


@pytest.mark.parametrize(
    "headers",
    [
        named(secret="another secret of it"),
        named(secret=""),
        named(secret=SECRET[:-1]),
        {"X-Forwarded-User": "ann"},
        {"X-Forwarded-User": "ann", "Authorization": "Basic"},
        {"X-Forwarded-User": "ann", "Authorization": "Basic \u00e9"},
        {"X-Forwarded-User": "ann", "Authorization": f"Bearer {SECRET}"},
        {"Authorization": named()["Authorization"]},
        {**named(), "X-Forwarded-User": " "},
    ],
)
async def test_users_of_anybody_else_are_refused(headers: dict[str, str], proxy: TrustedProxy) -> None:
    async with stage(proxy) as site:
        site.may("oidc:ann", *ADMIN)
        assert (await site.get("/", headers=headers))[0] == 401
        assert site.cluster.impersonated == []


async def test_without_a_secret_nobody_names_users(tmp_path: Path) -> None:
    async with stage() as site:
        assert (await site.get("/", headers=named()))[0] == 401
    async with stage(TrustedProxy(tmp_path / "none")) as site:
        assert (await site.get("/", headers=named()))[0] == 503
    (tmp_path / "empty").write_text("")
    async with stage(TrustedProxy(tmp_path / "empty")) as site:
        assert (await site.get("/", headers=named(secret="")))[0] == 503
        assert site.cluster.impersonated == []


@pytest.mark.parametrize(
    ("user", "groups"),
    [
        ("system:admin", ""),
        ("SYSTEM:kube-controller-manager", ""),
        ("ann", "system:masters"),
        ("ann", "team, system:masters"),
    ],
)
async def test_identities_of_kubernetes_itself_are_not_impersonated(
    user: str, groups: str, tmp_path: Path, proxy: TrustedProxy
) -> None:
    async with stage(TrustedProxy(proxy.secret, prefix="")) as site:
        site.cluster.groups_to_impersonate = {"system:masters"}
        status, text = await site.get("/", headers=named(user, groups))
        assert status == 403 and "are refused" in text
        assert site.cluster.impersonated == []


async def test_a_secret_that_is_renewed_counts_at_once(proxy: TrustedProxy) -> None:
    async with stage(proxy) as site:
        site.may("oidc:ann", *ADMIN)
        assert (await site.get("/", headers=named()))[0] == 200
        proxy.secret.write_text("the next secret of it")
        assert (await site.get("/", headers=named()))[0] == 401
        assert (await site.get("/", headers=named(secret="the next secret of it")))[0] == 200


async def test_groups_are_asked_one_by_one_where_rules_cannot_be_listed(site: Stage) -> None:
    site.cluster.incomplete = True
    site.cluster.groups_to_impersonate = MAY
    api = site.cluster
    assert await permitted(api, ["oidc:team", "oidc:others"]) == ("oidc:team",)  # type: ignore[arg-type]


# --- What people who have logged in may see and do, and how much of it ----------------------------


async def test_a_person_sees_what_the_api_server_allows(site: Stage) -> None:
    site.job("mine", NS)
    site.job("foreign", "other")
    site.may("ann", ("list", "fournosjobs", NS))
    await site.login()
    await until(lambda: site.caches.revision([FOURNOS_JOB]) == (2,))
    status, text = await site.get("/names")
    assert status == 200
    assert "mine" in text and "foreign" not in text and "other" not in text


async def test_nothing_is_looked_up_without_a_right(site: Stage) -> None:
    site.job("foreign", "other")
    await site.login()
    status, text = await site.get("/names")
    assert status == 403
    assert "foreign" not in text and "other" not in text
    assert "you may not list fournosjobs in any namespace" in text


async def test_a_namespace_without_jobs_is_empty_and_no_denial(site: Stage) -> None:
    site.job("foreign", "other")
    site.server.create(LOCAL_QUEUE, {"metadata": {"name": "queue", "namespace": NS}})
    site.may("ann", ("list", "fournosjobs", NS))
    await site.login()
    await until(lambda: site.caches.revision([FOURNOS_JOB, LOCAL_QUEUE]) == (1, 1))
    status, text = await site.get("/names")
    assert status == 200 and "foreign" not in text


async def test_an_api_server_that_is_away_is_no_denial(site: Stage) -> None:
    site.may("ann", *ADMIN)
    await site.login()
    site.cluster.error = ConnectionLostError("connection refused")
    status, text = await site.get("/names")
    assert status == 503 and "The API server does not answer" in text


async def test_where_there_is_nothing_a_person_without_rights_sees_nothing(site: Stage) -> None:
    """A person who may read a namespace without jobs gets an empty page, too, and no denial."""
    await site.login()
    assert (await site.get("/names"))[0] == 200


async def test_rights_are_kept_for_half_a_minute_and_denials_for_five_seconds(site: Stage) -> None:
    site.job("one", "team")
    await site.login()
    assert (await site.get("/names"))[0] == 403
    site.may("ann", *ADMIN)
    assert (await site.get("/names"))[0] == 403
    site.clock.at += 6
    assert (await site.get("/names"))[0] == 200
    asked = len(site.cluster.of(SUBJECT_ACCESS_REVIEW))
    site.cluster.rights.clear()
    assert (await site.get("/names"))[0] == 200
    assert len(site.cluster.of(SUBJECT_ACCESS_REVIEW)) == asked
    site.clock.at += 31
    assert (await site.get("/names"))[0] == 403


async def test_a_person_of_many_namespaces_costs_one_request_for_each(site: Stage) -> None:
    """Not one for each kind, verb and namespace, and none again for half a minute."""
    for number in range(60):
        site.job("a", f"team-{number}")
    site.may("ann", ("list", "fournosjobs", "team-7"))
    await site.login()
    await until(lambda: site.caches.revision([FOURNOS_JOB]) == (60,))
    for path in ("/names", "/", "/names"):
        assert (await site.get(path))[0] == 200
    asked = [obj["spec"]["namespace"] for obj in site.cluster.of(SELF_SUBJECT_RULES_REVIEW)]
    assert len(asked) == len(set(asked)) and len({f"team-{n}" for n in range(60)} & set(asked)) == 60
    assert site.cluster.reviewed_namespaces() == []


async def test_where_no_rules_are_listed_each_right_is_reviewed_and_denials_are_kept(site: Stage) -> None:
    site.cluster.incomplete = True
    for number in range(60):
        site.job("a", f"team-{number}")
    site.may("ann", ("list", "fournosjobs", "team-7"))
    await site.login()
    await until(lambda: site.caches.revision([FOURNOS_JOB]) == (60,))
    assert (await site.get("/names"))[0] == 200
    asked = site.cluster.reviewed_namespaces()
    assert len(set(asked)) == 61  # and that of the form's right
    site.clock.at += 29
    assert (await site.get("/names"))[0] == 200
    assert site.cluster.reviewed_namespaces() == asked


async def test_the_review_has_the_whole_user(site: Stage) -> None:
    site.cluster.groups["ann"] = ["team", "system:authenticated"]
    site.may("team", *ADMIN)
    await site.login()
    assert (await site.get("/names"))[0] == 200
    spec = site.cluster.of(SUBJECT_ACCESS_REVIEW)[0]["spec"]
    assert (spec["user"], spec["groups"]) == ("ann", ["team", "system:authenticated"])


async def test_what_a_person_may_do_is_not_shown_to_another(site: Stage) -> None:
    """Both see the same objects; only one has the button."""
    site.job("a")
    site.may("ann", *ADMIN)
    site.may("ben", ("list", "*", ""), ("get", "*", ""))
    _, first = await site.get("/names", headers={HEADER: "t-ann"})
    _, second = await site.get("/names", headers={HEADER: "t-ben"})
    assert '<form method="post">' in first
    assert '<form method="post">' not in second


# --- writes ------------------------------------------------------------------------------------------


async def test_a_write_leaves_an_audit_line(
    site: Stage,
    caplog: pytest.LogCaptureFixture,
) -> None:
    site.may("ann", *ADMIN)
    await site.login()
    with caplog.at_level(logging.INFO, "fournos.web.server.audit"):
        assert (await site.post("/act/x", {}, headers={"Sec-Fetch-Site": "cross-site"})).status == 403
        assert site.done == [] and not caplog.messages
        answer = await site.post("/act/x%0Ay", {"reason": "why"})
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        assert site.done == [("ann", {"reason": "why"})]
        assert (await site.post("/act/x", {"fail": "409"})).status == 502
    assert caplog.messages == [
        "act by 'ann': '/act/x\\ny': done",
        "act by 'ann': '/act/x': refused with 502",
    ]


async def test_writes_of_a_person_are_limited(site: Stage) -> None:
    site.may("ann", *ADMIN)
    await site.login()
    statuses = [(await site.post("/act/x", {})).status for _ in range(35)]
    assert statuses == [303] * 30 + [429] * 5


async def test_reads_of_a_person_are_limited_whatever_the_number_of_sessions(site: Stage) -> None:
    site.may("ann", *ADMIN)
    site.may("ben", *ADMIN)
    site.cluster.users["t-ann-2"] = "ann"
    tokens = ["t-ann", "t-ann-2"] * 101
    statuses = [(await site.get("/names", headers={HEADER: token}))[0] for token in tokens]
    assert statuses.count(200) == 200
    assert (await site.get("/names", headers={HEADER: "t-ben"}))[0] == 200


# --- Which persons are shown the same page: the class of a person's rights ------------------------


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


# --- Whose runs a person may read from the history ------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reader:
    """May list the runs of these namespaces, "" means all, and the jobs of `jobs`."""

    namespaces: Set[str]
    jobs: Set[str] = frozenset()

    async def may(self, verb: str, resource: Resource, namespace: str = "", **_: str) -> bool:
        assert verb == "list"
        return namespace in {RUNS: self.namespaces, FOURNOS_JOB: self.jobs}.get(resource, frozenset())

    async def permission_class(self) -> str:
        return ""


@asynccontextmanager
async def reading(rights: Any, *, shown: str = "", queues: Set[str] = frozenset()) -> AsyncIterator[Call]:
    """There is a job in each of a, b and c."""
    api = Api()
    for name in "abc":
        await api.create(FOURNOS_JOB, {"metadata": {"name": "one", "namespace": name}, "spec": SPEC})
    for name in queues:
        await api.create(LOCAL_QUEUE, {"metadata": {"name": "queue", "namespace": name}})
    async with visit(api, rights) as here:
        source = Permitted(here.site.caches, rights.may, lambda: "abc")
        call = here.call()
        viewer = replace(call.viewer, source=source)
        yield replace(call, viewer=viewer, site=replace(here.site, jobs_namespace=shown))


@pytest.mark.parametrize(
    ("readable", "expected"),
    [({""}, ("",)), ({"a", "c", "gone"}, ("a", "c")), (set(), ("",))],
    ids=["all", "those with jobs", "none: the request has the reason"],
)
async def test_namespaces_whose_runs_are_read(readable: set[str], expected: tuple[str, ...]) -> None:
    async with reading(Reader(readable)) as call:
        assert await recorded_namespaces(call) == expected


async def test_a_right_counts_that_is_given_for_the_runs_alone() -> None:
    """Without a job that is left, and without the right to read jobs or queues."""
    async with reading(Reader({"q"}), queues={"q"}) as call:
        assert await recorded_namespaces(call) == ("q",)


async def test_a_right_counts_in_the_last_of_many_namespaces() -> None:
    many = {f"n{number:03}" for number in range(120)}
    async with reading(Reader({"n119"}), queues=many) as call:
        assert await recorded_namespaces(call) == ("n119",)


async def test_without_any_right_the_reason_is_of_a_namespace_that_the_person_sees() -> None:
    async with reading(Reader(set(), jobs={"b", "c"})) as call:
        assert await recorded_namespaces(call) == ("b",)


async def test_a_page_of_one_namespace_reads_that_one() -> None:
    async with reading(Reader(set()), shown="b") as call:
        assert await recorded_namespaces(call) == ("b",)


@pytest.mark.parametrize(
    ("readable", "expected"), [({""}, WORLD), ({"b", "c"}, "b"), ({"b", WORLD}, WORLD), (set(), WORLD)]
)
async def test_a_run_without_a_namespace_is_in_one_that_the_person_may_read(
    readable: set[str], expected: str
) -> None:
    async with reading(Reader(readable), queues={WORLD}) as call:
        assert await home(call) == expected
