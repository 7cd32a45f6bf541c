"""The configuration of Kueue on a manager cluster and its workers, and a test kind that is dispatched."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import AlreadyExistsError, NoSuchResourceError
from fournos.engine.kube.resource import CUSTOM_RESOURCE_DEFINITION, Obj, Resource
from fournos.systems.multikueue.config import parse

_SERVED_WITHIN = 60.0
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
    """Creates the object; an existing one is left unchanged.  A CRD is served when it returns."""
    with suppress(AlreadyExistsError):
        await client.create(resource, body)
    if resource == CUSTOM_RESOURCE_DEFINITION:
        await served(client, body)


async def served(client: Client, definition: Obj) -> None:
    """Returns when the API server serves the kind of a CRD, which it does some time after `Established`.

    Raises TimeoutError.
    """
    spec = definition["spec"]
    version, names = spec["versions"][0]["name"], spec["names"]
    resource = Resource(spec["group"], version, names["kind"], names["plural"])
    async with asyncio.timeout(_SERVED_WITHIN):
        while True:
            with suppress(NoSuchResourceError):
                await client.list(resource, namespace="default")
                return
            await asyncio.sleep(0.05)
