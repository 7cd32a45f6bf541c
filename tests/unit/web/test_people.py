"""Who a request comes from: a token that a proxy passes on, or a user that a trusted proxy names."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from fournos.engine.kube.resource import SELF_SUBJECT_RULES_REVIEW, SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW
from fournos.web.people import TrustedProxy, permitted
from tests.unit.web.stage import ADMIN, HEADER, stage
from tests.waiting import until

SECRET = "a secret of the proxy"
MAY = {"oidc:team"}


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


async def test_without_a_proxy_the_page_says_what_is_missing() -> None:
    async with stage() as site:
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
async def test_a_token_that_a_proxy_passes_on_is_the_person_s(headers: dict[str, str]) -> None:
    async with stage() as site:
        site.may("ann", *ADMIN)
        status, text = await site.get("/", headers=headers)
        assert status == 200 and ">ann</span>" in text
        assert site.cluster.bearers == ["t-ann"]


@pytest.mark.parametrize("token", ["stranger", "a b"])
async def test_an_invalid_token_is_refused_with_that_reason(token: str) -> None:
    async with stage() as site:
        status, text = await site.get("/", headers={HEADER: token})
        assert status == 401 and "not valid in this cluster" in text


async def test_a_token_that_was_withdrawn_is_refused_within_a_minute() -> None:
    async with stage() as site:
        site.may("ann", *ADMIN)
        await site.login()
        assert (await site.get("/"))[0] == 200
        del site.cluster.users["t-ann"]
        site.clock.at += 61
        assert (await site.get("/"))[0] == 401


async def test_a_flood_of_tokens_does_not_reach_the_api_server() -> None:
    async with stage() as site:
        site.cluster.hold = asyncio.Event()
        asked = [
            asyncio.create_task(site.get("/", headers={HEADER: f"guess-{number}"})) for number in range(40)
        ]
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


async def test_groups_are_asked_one_by_one_where_rules_cannot_be_listed() -> None:
    async with stage() as site:
        site.cluster.incomplete = True
        site.cluster.groups_to_impersonate = MAY
        api = site.cluster
        assert await permitted(api, ["oidc:team", "oidc:others"]) == ("oidc:team",)  # type: ignore[arg-type]
