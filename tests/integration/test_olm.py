"""The OLM bundle: generated, the same operators and rights as install.yaml, accepted by a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from dev.generated import differences
from dev.image import ROOT
from dev.olm import BUNDLE, generated, stale
from dev.olm_objects import NAMESPACE, OLM_ROLE
from dev.release import Source, by_system
from dev.release_install import Document, of_all
from tests.integration.conftest import Server
from tests.integration.test_policies import As, grant, who  # noqa: F401
from tests.integration.test_policies_pods import EVERYTHING
from tests.integration.test_rbac import rights, secrets_namespace  # noqa: F401
from tests.integration.test_samples import served
from tests.unit.deploy.olm_bundle import deployments, examples, objects, prerequisites, spec
from tests.waiting import until

OTHER_VARIABLES = {
    "HEARTH_NAMESPACE",
    "FOURNOS_MULTIKUEUE_NAMESPACE",
    "FOURNOS_METRICS_SECRET",
    "FOURNOS_WEBHOOK_SECRET",
}
"""What differs in the Deployments, in one namespace."""
OTHER_SECRETS = (
    '"fournos-frameworks-webhook-cert", "fournos-frameworks-metrics-cert"',
    '"fournos-webhook-cert", "fournos-metrics-cert"',
)
"""How a rule names two Secrets there and in install.yaml."""
Grant = tuple[str, str, str]
"""An account, the namespace in which it has the rule ("": all), and the rule."""


@pytest.fixture(scope="module")
def installed(kubeconfig: object) -> list[Document]:
    """The objects of install.yaml.  To render them takes kubectl, which a cluster brings."""
    source = Source(ROOT, 0)
    return of_all(by_system(source))


# The fixture makes sure that there is a kubectl: a cluster brings its own.
@pytest.mark.usefixtures("kubeconfig")
def test_it_is_generated_from_the_manifests() -> None:
    files, folder = generated(ROOT), ROOT / BUNDLE
    assert [*stale(files, folder), *differences(files, folder)] == [], "make bundle writes it"


def test_the_deployments_are_those_of_the_install_file(installed: list[Document]) -> None:
    wanted = {item["metadata"]["name"]: item for item in installed if item["kind"] == "Deployment"}
    found = {item["name"]: item for item in deployments()}
    assert found.keys() == wanted.keys()
    for name, item in found.items():
        assert item["label"] == wanted[name]["metadata"]["labels"]
        assert _comparable(item["spec"]) == _comparable(wanted[name]["spec"]), name


def _comparable(deployment: Any) -> Any:
    copy = json.loads(json.dumps(deployment))
    for container in copy["template"]["spec"]["containers"]:
        container["env"] = [entry for entry in container["env"] if entry["name"] not in OTHER_VARIABLES]
    return copy


def test_no_account_has_more_rights_or_less(installed: list[Document]) -> None:
    homes = {item["metadata"]["namespace"] for item in installed if item["kind"] == "Deployment"}
    by_account = {
        (permission["serviceAccountName"], "", _text(rule))
        for permission in spec()["install"]["spec"]["clusterPermissions"]
        for rule in permission["rules"]
    }
    found = by_account | set(_grants([*objects(), *prerequisites()], {}))
    wanted = set(_grants(installed, dict.fromkeys(homes, NAMESPACE)))
    renamed = {(account, place, rule.replace(*OTHER_SECRETS)) for account, place, rule in found}
    assert {grant for grant in renamed if grant[0] not in {account for account, _, _ in wanted}} == {
        ("olm-operator-serviceaccount", NAMESPACE, _text(_rule_of_olm()))
    }
    assert {grant for grant in renamed if grant[0] != "olm-operator-serviceaccount"} == wanted
    assert len(wanted) > 90


def _grants(items: Iterable[Document], moved: dict[str, str]) -> Iterator[Grant]:
    """What the bindings give; an aggregated ClusterRole counts by the labels that it collects."""
    documents = list(items)
    roles = {
        (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]): item
        for item in documents
        if item["kind"] in ("Role", "ClusterRole")
    }
    for item in documents:
        if not item["kind"].endswith("RoleBinding"):
            continue
        kind, namespace = item["roleRef"]["kind"], item["metadata"].get("namespace", "")
        role = roles[kind, namespace if kind == "Role" else "", item["roleRef"]["name"]]
        for subject in item["subjects"]:
            for rule in role.get("rules") or [role["aggregationRule"]]:
                yield subject["name"], moved.get(namespace, namespace), _text(rule)


def _rule_of_olm() -> Any:
    accounts = {item["spec"]["template"]["spec"]["serviceAccountName"] for item in deployments()}
    return {
        "apiGroups": [""],
        "resources": ["serviceaccounts"],
        "resourceNames": sorted(accounts),
        "verbs": ["use"],
    }


def _text(rule: Any) -> str:
    return json.dumps(rule, sort_keys=True)


def test_no_object_is_lost(installed: list[Document]) -> None:
    there = {(item["kind"], item["metadata"]["name"]) for item in (*objects(), *prerequisites())}
    missing = {
        (item["kind"], item["metadata"]["name"])
        for item in installed
        if item["kind"] not in ("Deployment", "ClusterRole", "ClusterRoleBinding")
    } - there
    accounts = {item["spec"]["template"]["spec"]["serviceAccountName"] for item in deployments()}
    homes = {item["metadata"]["namespace"] for item in installed if item["kind"] == "Deployment"}
    assert missing == {("ServiceAccount", name) for name in accounts} | {
        ("Namespace", name) for name in homes - {NAMESPACE}
    }


def _named(items: Iterable[Document]) -> dict[str, Document]:
    return {f"{item['kind']} {item['metadata']['name']}": item for item in items}


ACCEPTED = _named([*examples(), *objects(), *prerequisites()])


@pytest.mark.usefixtures("crds")
@pytest.mark.parametrize(
    "name", [name for name, item in ACCEPTED.items() if item["kind"] != "ClusterServiceVersion"]
)
async def test_an_api_server_accepts_it(server: Server, namespace: str, name: str) -> None:
    """As a dry run: nothing of it is made.  A name that is taken is accepted, too: the object is valid."""
    item = ACCEPTED[name]
    resource = await served(server, item)
    own = {"namespace": namespace} if resource.namespaced else {}
    body = {**item, "metadata": {**item["metadata"], **own}}
    path = resource.path(namespace=body["metadata"].get("namespace"))
    status, answer = await server("POST", path, body, dryRun="All", fieldValidation="Strict")
    assert status == 201 or answer.get("reason") == "AlreadyExists", answer.get("message")


async def test_olm_may_deploy_the_operators(who: As, server: Server) -> None:  # noqa: F811
    """A policy refuses a Deployment with an operator's account to who may not `use` it."""
    account, home = "olm-operator-serviceaccount", "olm"
    path = f"/apis/apps/v1/namespaces/{who.namespace}/deployments"

    async def deploy(deployment: dict[str, Any]) -> tuple[int, str]:
        body = {"metadata": {"name": deployment["name"]}, "spec": deployment["spec"]}
        return await who(account, "POST", path, body, namespace=home, dryRun="All")

    async def refused() -> bool:
        return "ValidatingAdmissionPolicy" in (await deploy(deployments()[0]))[1]

    async def accepted() -> bool:
        return (await deploy(deployments()[0]))[0] == 201

    await grant(server, who.namespace, account, EVERYTHING, home=home)
    await until(refused, "no policy refuses it", pause=0.1)
    for item in prerequisites():
        if item["metadata"]["name"] == OLM_ROLE:
            body = {**item, "metadata": {**item["metadata"], "namespace": who.namespace}}
            resource = await served(server, body)
            await server.apply(f"{resource.path(namespace=who.namespace)}/{OLM_ROLE}", body)
    await until(accepted, "OLM may not use the account", pause=0.1)
    for deployment in deployments():
        status, message = await deploy(deployment)
        assert status == 201, message
