"""The page as it is shipped, with its own ServiceAccount, and people who log in with rights of their own."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from aiohttp import web
from playwright.sync_api import Browser, BrowserContext, StorageState

from devcluster import manifests
from fournos.web.identity import session_keys
from fournos.web.identity.sessions import Cookies, Sealer, Session
from tests.e2e.hub import ROOT, Hub
from tests.e2e.web.conftest import CLUSTERS
from tests.e2e.web.served import Served
from tests.integration.jobs.operator import Operator
from tests.waiting import free_port

HOME = "fournos-web"
PEOPLE = "web-people"
"""The namespace of the persons' ServiceAccounts."""
ELSEWHERE = "web-elsewhere"
"""A FournosJob in that namespace, which no operator looks at."""

JOBS = {"apiGroups": ["fournos.dev"], "resources": ["fournosjobs"]}
READS = {**JOBS, "verbs": ["get", "list"]}
RIGHTS: dict[str, dict[str, list[dict[str, Any]]]] = {
    "ann": {
        "": [
            {**JOBS, "verbs": ["*"]},
            {"apiGroups": ["history.fournos.dev"], "resources": ["*"], "verbs": ["*"]},
            {"apiGroups": ["kueue.x-k8s.io", "tekton.dev", "batch", ""], "resources": ["*"],
             "verbs": ["get", "list"]},
        ],
        CLUSTERS: [{"apiGroups": ["fournos.dev"], "resources": ["fournosclusters"], "verbs": ["*"]}],
    },
    "ben": {PEOPLE: [READS]},
    "cleo": {"": [READS]},
}  # fmt: skip
"""Person → namespace ("": that of the operator) → rules."""


@dataclass(frozen=True)
class Shared:
    """The running page."""

    hub: Hub
    base: str

    def token(self, name: str) -> str:
        return self.hub.kubectl("-n", PEOPLE, "create", "token", name).strip()

    def context(self, browser: Browser, **options: Any) -> BrowserContext:
        """A browser in which nobody is logged in; the page's certificate is of its own authority."""
        return browser.new_context(
            ignore_https_errors=True, viewport={"width": 1280, "height": 900}, **options
        )

    def log_in(self, browser: Browser, name: str) -> Served:
        context = self.context(browser)
        answer = context.request.post(f"{self.base}/login", form={"token": self.token(name)}, max_redirects=0)
        assert answer.status == 303, answer.text()
        state: StorageState = context.storage_state()
        context.close()
        return Served(self.base, state)

    def withdraw(self, name: str) -> None:
        self.hub.run("delete", "rolebinding", f"web-{name}")

    def end_session(self, context: BrowserContext, token: str) -> None:
        """Puts a session in the browser that has ended a minute ago."""
        secret = self.hub.kubectl("-n", HOME, "get", "secret", "fournos-web-session", "-o", "json")
        now = datetime.now(UTC)
        sealer = Sealer(session_keys.read(json.loads(secret)).in_order(now))
        session = Session(token, "csrf", (now - timedelta(minutes=1)).timestamp(), "token")
        response = Cookies().write(web.Response(), sealer, session, now.timestamp())
        flags = {"url": self.base, "secure": True, "httpOnly": True, "sameSite": "Lax"}
        found: list[Any] = [
            {"name": one.key, "value": one.value, **flags} for one in response.cookies.values() if one.value
        ]
        context.add_cookies(found)


@pytest.fixture(scope="package")
def shared(world: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("shared")
    with _persons(world), _account(world) as token:
        config = yaml.safe_load(world.kubeconfig.read_text())
        config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
        own = folder / "kubeconfig"
        own.write_text(yaml.safe_dump(config))
        port = free_port()
        settings = {"WEB_PORT": str(port), "WEB_JOBS_NAMESPACE": ""}
        process = Operator(own, HOME, folder / "log", enable="web", settings=settings)
        try:
            world.until(lambda: not process.running or _answers(port), process.tail)
            assert process.running, process.tail()
            yield Shared(world, f"https://127.0.0.1:{port}")
        finally:
            process.stop()
        assert "Traceback" not in process.log.read_text(), process.tail()


def _answers(port: int) -> bool:
    anyone = ssl.create_default_context()
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(f"https://127.0.0.1:{port}/login", context=anyone, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def _account(hub: Hub) -> Iterator[str]:
    """The token of the shipped ServiceAccount, with the shipped rights and the shipped empty Secrets."""
    shipped = manifests.parse(hub.kubectl("kustomize", str(ROOT / "deploy" / "web")))
    left_out = ("Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget")
    text = yaml.safe_dump_all([one for one in shipped if one["kind"] not in left_out])
    hub.kubectl("apply", "--server-side", "-f", "-", stdin=text)
    yield hub.kubectl("-n", HOME, "create", "token", HOME).strip()
    hub.kubectl("delete", "--wait=false", "-f", "-", stdin=text)


@contextmanager
def _persons(hub: Hub) -> Iterator[None]:
    group = "rbac.authorization.k8s.io"
    made: list[dict[str, Any]] = []
    for name, rights in RIGHTS.items():
        made.append(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": PEOPLE}}
        )
        for place, rules in rights.items():
            meta = {"name": f"web-{name}", "namespace": place or hub.namespace}
            subject = {"kind": "ServiceAccount", "name": name, "namespace": PEOPLE}
            role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": meta, "rules": rules}
            reference = {"apiGroup": group, "kind": "Role", "name": meta["name"]}
            binding = {"roleRef": reference, "subjects": [subject]}
            made += [role, {**role, "kind": "RoleBinding", **binding}]
            del made[-1]["rules"]
    job = {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosJob",
        "metadata": {"name": ELSEWHERE, "namespace": PEOPLE},
        "spec": {"owner": "ben", "lockOnly": True, "cluster": "cluster-2"},
    }
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PEOPLE}}
    text = yaml.safe_dump_all([space, *made, job])
    hub.kubectl("apply", "-f", "-", stdin=text)
    yield
    hub.kubectl("delete", "--wait=false", "--ignore-not-found", "-f", "-", stdin=text)
