"""The configuration of Kueue on a manager cluster and its workers, and a test kind that is dispatched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fournos.kube.client import Client
from fournos.kube.errors import AlreadyExistsError
from fournos.kube.resource import Obj, Resource
from fournos.multikueue.kinds import parse

FOO = parse("Foo.v1.example.com")
FRAMEWORKS = ("Foo.v1.example.com", "PipelineRun.v1.tekton.dev", "FournosJob.v1.fournos.dev")
FOO_CRD: Obj = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "foos.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Foo", "plural": "foos", "singular": "foo", "listKind": "FooList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                                "properties": {
                                    "managedBy": {"type": "string"},
                                    "suspend": {"type": "boolean"},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


def worker_config(frameworks: Sequence[str] = FRAMEWORKS) -> dict[str, Any]:
    """Returns Kueue's configuration of a worker cluster that runs these kinds."""
    return {
        "integrations": {
            "frameworks": ["batch/job", "workload.codeflare.dev/appwrapper"],
            "externalFrameworks": list(frameworks),
        },
    }


def manager_config(frameworks: Sequence[str] = FRAMEWORKS) -> dict[str, Any]:
    """Returns Kueue's configuration of a manager cluster that dispatches these kinds."""
    return {
        **worker_config(frameworks),
        # For Kueue's own adapter: ours is measured and tested beside it.
        "multiKueue": {
            "externalFrameworks": [{"name": name} for name in frameworks],
            "workerLostTimeout": "10s",
            "gcInterval": "5s",
        },
    }


def typed(resource: Resource, name: str, *, namespace: str = "", **parts: Any) -> dict[str, Any]:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, **parts}


async def make(client: Client, resource: Resource, body: Obj) -> None:
    """Creates the object; an existing one is left unchanged."""
    try:
        await client.create(resource, body)
    except AlreadyExistsError:
        return
