"""The page as it is shipped, with its own ServiceAccount, and people with rights of their own."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, BrowserContext

from devcluster import manifests
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
        """A browser without a proxy; the page's certificate is of its own authority."""
        return browser.new_context(
            ignore_https_errors=True, viewport={"width": 1280, "height": 900}, **options
        )

    def as_person(self, name: str) -> Served:
        """The page behind a proxy that sends the person's token with each request."""
        return Served(self.base, None, {"Authorization": f"Bearer {self.token(name)}"})

    def withdraw(self, name: str) -> None:
        self.hub.run("delete", "rolebinding", f"web-{name}")


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
        with urllib.request.urlopen(f"https://127.0.0.1:{port}/", context=anyone, timeout=5):
            return True
    except urllib.error.HTTPError as error:
        return error.code == 401
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
