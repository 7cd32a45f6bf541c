"""What is there at start decides whether the operator starts."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from fournos.app.parts import PARTS
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.runtime.part import UnsupportedError, preflight

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
