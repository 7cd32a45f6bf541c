"""`make dev-setup dev-run dev-teardown`, on the cluster of all these tests: DEV_CLUSTER is a name for it.

A cluster of its own is what `make demo` starts the same way.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from dev.image import MOCK_RESOLVE
from devcluster import state
from tests.commands import run, running
from tests.e2e.hub import Hub


@pytest.fixture
def own(hub: Hub, operator_in_cluster: None) -> Iterator[tuple[Hub, dict[str, str]]]:
    """Namespaces and a DEV_CLUSTER without any preparation."""
    suffix = uuid.uuid4().hex[:6]
    owned = replace(hub, namespace=f"fournos-dev-{suffix}", secrets_namespace=f"psap-dev-{suffix}")
    cluster = f"fournos-test-dev-{suffix}"
    yield (
        owned,
        {
            "DEV_CLUSTER": cluster,
            "DEV_ARGS": f"--provider existing --kubeconfig {hub.kubeconfig} --resolve-image {MOCK_RESOLVE}",
            "FOURNOS_NAMESPACE": owned.namespace,
            "FOURNOS_SECRETS_NAMESPACE": owned.secrets_namespace,
        },
    )
    state.remove(cluster)
    for namespace in (owned.namespace, owned.secrets_namespace):
        hub.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=false")
    binding = f"fournos-queue-reader-{owned.namespace}"
    hub.kubectl("delete", "clusterrolebinding", binding, "--ignore-not-found")


def test_setup_run_and_teardown(own: tuple[Hub, dict[str, str]]) -> None:
    hub, variables = own
    shown = run("make", "dev-setup", **variables)
    assert f"FOURNOS_NAMESPACE={hub.namespace} make test" in shown
    with running("make", "dev-run", **variables) as log:
        hub.submit("job")
        assert hub.wait("job")["phase"] == "Succeeded", log.read_text()
        assert f"The operator of namespace {hub.namespace}" in log.read_text()
    shown = run("make", "dev-teardown", **variables)
    assert "the cluster itself and what is installed in it stay" in shown
    assert variables["DEV_CLUSTER"] not in state.names()
    assert "Set it up first: make dev-setup" in run("make", "dev-run", fails=True, **variables)
