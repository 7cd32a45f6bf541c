"""Serving behind the Kubernetes API server (aggregation layer): whom to trust, and who trusts us.

A client then needs only its kubeconfig: the API server authenticates it, whatever its credentials are, and
forwards the request to us with the user in headers.
"""

from __future__ import annotations

import base64
from typing import Any, Final

import orjson

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.history.api.authentication import FrontProxy

API_SERVICE: Final = Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False)
NAME: Final = "v1.history.fournos.dev"
_CONFIG_MAP: Final = Resource("", "v1", "ConfigMap", "configmaps")
_AUTHENTICATION: Final = Key("kube-system", "extension-apiserver-authentication")


def front_proxy(config_map: Obj) -> tuple[bytes, FrontProxy]:
    """Returns the authority of the API server's client certificates and its headers.

    Raises ValueError for a ConfigMap that cannot be read, or of an API server that forwards no requests.
    """
    data = config_map.get("data") or {}
    authority = str(data.get("requestheader-client-ca-file") or "").encode()
    if not authority:
        raise ValueError("the API server forwards no requests: it has no --requestheader-client-ca-file")

    def names(key: str) -> tuple[str, ...]:
        listed = orjson.loads(data.get(key) or "[]")
        if not isinstance(listed, list):
            raise ValueError(f"{key} is not a list")
        return tuple(map(str, listed))

    headers = FrontProxy()
    return authority, FrontProxy(
        names=names("requestheader-allowed-names"),
        user_headers=names("requestheader-username-headers") or headers.user_headers,
        uid_headers=names("requestheader-uid-headers"),
        group_headers=names("requestheader-group-headers") or headers.group_headers,
        extra_prefixes=names("requestheader-extra-headers-prefix") or headers.extra_prefixes,
    )


async def read_front_proxy(api: Api) -> tuple[bytes, FrontProxy]:
    """Reads the ConfigMap in which an API server describes itself.  Raises KubeErrors and ValueError."""
    return front_proxy(await api.get(_CONFIG_MAP, _AUTHENTICATION))


async def publish(api: Api, bundle: bytes, *, namespace: str) -> None:
    """Writes our authorities into the APIService, if there is one that names a Service of this namespace.

    Raises KubeErrors.
    """
    try:
        service = await api.get(API_SERVICE, Key("", NAME))
    except NotFoundError:
        return
    if patch := correction(service, bundle, namespace=namespace):
        await api.patch(API_SERVICE, Key("", NAME), patch)


def correction(service: Obj, bundle: bytes, *, namespace: str) -> dict[str, Any] | None:
    """Returns the merge patch to the APIService; None if it is right or not ours."""
    spec = service.get("spec") or {}
    ours = (spec.get("service") or {}).get("namespace") == namespace
    ca_bundle = base64.b64encode(bundle).decode()
    if not ours or spec.get("caBundle") == ca_bundle:
        return None
    return {
        "metadata": {"resourceVersion": service["metadata"]["resourceVersion"]},
        "spec": {"caBundle": ca_bundle},
    }
