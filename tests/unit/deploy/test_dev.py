"""How the development cluster gets the manifests, and what the operator must find there."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any, cast

import pytest

from dev import operator, resources
from dev.setup import arguments, where_of
from fournos.app.parts import PARTS
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.runtime.part import UnsupportedError, preflight
from fournos.systems.jobs.settings import SecretConsumer


def test_rbac_is_filled_in_whole() -> None:
    objects = resources.rbac("mine", "theirs")
    assert "$" not in str(objects)
    readers = [o for o in objects if o["metadata"]["name"] == "fournos-secrets-reader-mine"]
    assert [o["metadata"]["namespace"] for o in readers] == ["theirs", "theirs"]
    subjects = [s["namespace"] for o in objects for s in o.get("subjects", ())]
    assert set(subjects) == {"mine"}


def test_a_missing_variable_is_an_error() -> None:
    with pytest.raises(KeyError, match="SECRETS_NAMESPACE"):
        resources.load("manifests/secrets-ns-rbac.yaml", NAMESPACE="mine")


def test_the_deployment_keeps_its_hardening_and_gets_image_and_template() -> None:
    shipped = resources.load("manifests/deployment.yaml")
    (before,) = deepcopy([o for o in shipped if o["kind"] == "Deployment"])
    shipped[-1]["metadata"]["namespace"] = "mine"
    objects = operator.objects(shipped, "docker.io/local/fournos:x", settings={"FOURNOS_METRICS_PORT": "1"})
    (after,) = (o for o in objects if o["kind"] == "Deployment")
    (config,) = (o for o in objects if o["kind"] == "ConfigMap")
    old, new = (o["spec"]["template"]["spec"] for o in (before, after))
    assert new["containers"][0]["securityContext"] == old["containers"][0]["securityContext"]
    assert new["containers"][0]["image"] == "docker.io/local/fournos:x"
    names = [entry["name"] for entry in new["containers"][0]["env"]]
    environment = {entry["name"]: entry.get("value") for entry in new["containers"][0]["env"]}
    assert len(names) == len(environment) and environment["FOURNOS_METRICS_PORT"] == "1"
    assert config["metadata"]["namespace"] == "mine"
    assert environment["FOURNOS_RESOLVE_JOB_TEMPLATE"].rpartition("/")[2] in config["data"]


def test_the_mock_secrets_are_for_the_jobs_of_one_namespace() -> None:
    for secret in resources.mock_secrets("mine"):
        may = SecretConsumer("listed", "mine", "anyone", ())
        assert may(secret["metadata"]["name"], secret["metadata"]["annotations"]) == ""
        may_not = SecretConsumer("listed", "theirs", "anyone", ())
        assert may_not(secret["metadata"]["name"], secret["metadata"]["annotations"])


def test_another_resolver_replaces_only_the_mock_one() -> None:
    images = {
        item["metadata"]["name"]: item["metadata"]["annotations"]["fournos.dev/resolve-image"]
        for item in resources.mock_pipelines("registry.test/resolver:1")
        if item["kind"] == "Pipeline"
    }
    assert images["fournos-full"] == images["fournos-run-only"] == "registry.test/resolver:1"
    assert images["fournos-validate-only"] == "docker.io/library/busybox:1.36"


def test_namespaces_come_from_the_readme_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = arguments("x")
    monkeypatch.delenv("FOURNOS_NAMESPACE", raising=False)
    monkeypatch.delenv("FOURNOS_SECRETS_NAMESPACE", raising=False)
    where = where_of(parser.parse_args([]))
    assert (where.namespace, where.secrets_namespace) == ("fournos-local-dev", "psap-secrets")
    monkeypatch.setenv("FOURNOS_NAMESPACE", "mine")
    assert where_of(parser.parse_args([])).namespace == "mine"


# --- What is there at start decides whether the operator starts --------------------------------------

SERVED = {"fournos.dev": ["v1"], "kueue.x-k8s.io": ["v1beta1", "v1beta2"], "tekton.dev": ["v1", "v1beta1"]}


class Server:
    def __init__(self, version: str = "v1.34.4", **served: list[str] | None) -> None:
        self._version = version
        changes = {name.replace("_", "."): value for name, value in served.items()}
        changes = {{"kueue": "kueue.x-k8s.io"}.get(name, name): value for name, value in changes.items()}
        self._served: dict[str, list[str] | None] = {**SERVED, **changes}

    async def server_version(self) -> str:
        return self._version

    async def raw_get(self, path: str) -> bytes:
        versions = self._served[path.removeprefix("/apis/")]
        if versions is None:
            raise NotFoundError("not found", status=404)
        return json.dumps({"versions": [{"version": version} for version in versions]}).encode()


async def start(*arguments: Any, **served: Any) -> list[str]:
    return await preflight(cast(Client, Server(*arguments, **served)), PARTS["jobs"].required)


async def test_a_supported_cluster() -> None:
    assert await start() == []
    assert await start("v1.30.0+k3s1") == []


@pytest.mark.parametrize(
    ("version", "served", "words"),
    [
        ("v1.29.9", {}, "Kubernetes v1.29.9 is too old: Fournos needs 1.30 or newer"),
        ("v1.34.4", {"fournos_dev": None}, "kubectl apply -f manifests/crd.yaml"),
        ("v1.34.4", {"kueue": ["v1beta1"]}, "in v1beta1, not in v1beta2: upgrade Kueue to 0.15 or newer"),
        ("v1.34.4", {"tekton_dev": ["v1beta1"]}, "upgrade Tekton Pipelines to 0.44 or newer"),
    ],
)
async def test_an_unsupported_one_is_refused_with_the_fix(version: str, served: Any, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words.replace(".", r"\.")):
        await start(version, **served)


async def test_an_engine_that_is_missing_is_waited_for() -> None:
    assert await start(kueue=None, tekton_dev=None) == [
        "Kueue is not installed: jobs wait for it",
        "Tekton Pipelines is not installed: jobs wait for it",
    ]


async def test_a_part_needs_the_crds_of_its_own_kinds_only() -> None:
    published = {"workload_codeflare_dev": ["v1beta2"]}
    server = cast(Client, Server(fournos_dev=None, tekton_dev=None, **published))
    assert await preflight(server, PARTS["appwrappers"].required) == []
    without = cast(Client, Server(workload_codeflare_dev=None))
    with pytest.raises(UnsupportedError, match=r"deploy/appwrapper/crd\.yaml"):
        await preflight(without, PARTS["appwrappers"].required)
