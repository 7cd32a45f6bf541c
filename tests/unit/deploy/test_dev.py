"""How the development cluster gets the manifests: substituted whole, changed only where it must be."""

from __future__ import annotations

from copy import deepcopy

import pytest

from dev import operator, resources
from dev.setup import arguments, where_of
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
