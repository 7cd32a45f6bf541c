"""What the operator makes of a MiniCluster, without a cluster."""

from __future__ import annotations

import secrets
from typing import Final

from fournos.engine.kube.resource import Obj
from fournos.insight.errors import FournosError
from fournos.insight.values import name_of
from fournos.systems.miniclusters import build, curve, entrypoint, names
from fournos.systems.miniclusters.cluster import cluster_of
from fournos.systems.miniclusters.settings import MiniClusterSettings

_MADE_LATER: Final = "made by the operator"


def entrypoint_file(minicluster: Obj, key: str) -> str:
    """Returns one file of the entrypoint ConfigMap.  Raises FournosError if there is none of this name."""
    data = entrypoint.data(cluster_of(minicluster, MiniClusterSettings()))
    if key not in data:
        raise FournosError(f"there is no {key}", fix="name one of " + ", ".join(data))
    return data[key]


def objects_of(minicluster: Obj, *, certificate: bool) -> list[Obj | str]:
    """Returns the objects in the order in which they are made.

    `certificate`: with a new certificate, so that they can be applied; else with a text in its place.
    """
    settings, lead = MiniClusterSettings(), names.lead(name_of(minicluster))
    text = curve.certificate(secrets.token_bytes(curve.KEY_BYTES), host=lead) if certificate else _MADE_LATER
    return [
        build.certificate_secret(minicluster, settings, certificate=text),
        build.headless_service(minicluster, settings),
        *build.wanted(minicluster, settings),
    ]
