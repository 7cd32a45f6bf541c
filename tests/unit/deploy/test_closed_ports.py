"""The component that closes ports names every port that a NetworkPolicy of ours opens, and opens no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from devcluster import manifests

ROOT: Final = Path(__file__).parents[3]
PEERS: Final = {"http": False, "https": False, "metrics": True, "webhooks": True, 9443: True, "api": True}
"""The ports, and whether only some clients reach them."""


def policies() -> list[dict[str, Any]]:
    files = [*ROOT.glob("deploy/**/*.yaml"), *ROOT.glob("manifests/**/*.yaml")]
    texts = [file.read_text() for file in files]
    found = [one for text in texts if "kind: NetworkPolicy" in text for one in manifests.parse(text)]
    return [one for one in found if one and one["kind"] == "NetworkPolicy"]


def test_each_port_is_closed_to_those_who_do_not_need_it() -> None:
    component = yaml.safe_load((ROOT / "deploy/closed-ports/kustomization.yaml").read_text())
    (patch,) = component["patches"]
    assert patch["target"] == {"kind": "NetworkPolicy"}
    (operation,) = yaml.safe_load(patch["patch"])
    assert (operation["op"], operation["path"]) == ("replace", "/spec/ingress")
    rules = {port["port"]: "from" in rule for rule in operation["value"] for port in rule["ports"]}
    assert rules == PEERS
    opened = {
        port["port"]
        for policy in policies()
        for rule in policy["spec"].get("ingress", [])
        for port in rule["ports"]
    }
    assert opened == set(PEERS)
