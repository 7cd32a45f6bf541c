"""Kueue's webhooks at an address where nothing listens: the API server refuses what they review."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import urlsplit

from dev.resources import kubectl
from devcluster import Cluster
from devcluster.components import KUEUE_WEBHOOK_PORT

_CLOSED_PORT: Final = 1
_KINDS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


def begin(cluster: Cluster) -> None:
    _move(cluster, KUEUE_WEBHOOK_PORT, _CLOSED_PORT)


def end(cluster: Cluster) -> None:
    _move(cluster, _CLOSED_PORT, KUEUE_WEBHOOK_PORT)


def _move(cluster: Cluster, old: int, new: int) -> None:
    configurations = json.loads(kubectl(cluster, "get", ",".join(_KINDS), "--output", "json"))["items"]
    moved = [each for each in configurations if _moved(each, old, new)]
    kubectl(
        cluster,
        "replace",
        "--filename=-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": moved}),
    )


def _moved(configuration: dict[str, Any], old: int, new: int) -> bool:
    """Changes the port of the webhooks that have the old one; returns whether any had."""
    clients = [webhook["clientConfig"] for webhook in configuration["webhooks"]]
    ours = [client for client in clients if urlsplit(client.get("url", "")).port == old]
    for client in ours:
        client["url"] = client["url"].replace(f":{old}/", f":{new}/")
    return bool(ours)
