"""An API server that has one seat for the operator: all its other requests get 429.

API priority and fairness spares administrators, so the operator is a ServiceAccount here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import yaml

from bench.rig import NAMESPACE
from dev.resources import apply, kubectl
from devcluster import Cluster

_ACCOUNT: Final = "bench-operator"
_LEVEL: Final = "bench-one-seat"
_FLOW: Final = "flowcontrol.apiserver.k8s.io/v1"
_BALLAST: Final = 1000
"""Shares of a level that nobody uses: what is left for a level with one share is one seat."""


def kubeconfig(cluster: Cluster, directory: Path) -> Path:
    """Makes the ServiceAccount, which may do everything, and returns its kubeconfig."""
    account = {"name": _ACCOUNT, "namespace": NAMESPACE}
    rbac = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": _ACCOUNT},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", **account}],
    }
    apply(cluster, [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}, binding])
    token = kubectl(cluster, "create", "token", _ACCOUNT, "--namespace", NAMESPACE, "--duration", "24h")
    config = yaml.safe_load(cluster.kubeconfig_path.read_text(encoding="utf-8"))
    for user in config["users"]:
        user["user"] = {"token": token.strip()}
    path = directory / "operator.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def begin(cluster: Cluster) -> None:
    """Takes all seats but one away from the operator, at once."""
    apply(cluster, [_level(_LEVEL, 1), _level(f"{_LEVEL}-ballast", _BALLAST), _schema()])


def end(cluster: Cluster) -> None:
    kubectl(cluster, "delete", "flowschema", _LEVEL)
    kubectl(cluster, "delete", "prioritylevelconfiguration", _LEVEL, f"{_LEVEL}-ballast")


def _level(name: str, shares: int) -> dict[str, Any]:
    return {
        "apiVersion": _FLOW,
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": name},
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": shares,
                "lendablePercent": 0,
                "borrowingLimitPercent": 0,
                "limitResponse": {"type": "Reject"},
            },
        },
    }


def _schema() -> dict[str, Any]:
    account = {"name": _ACCOUNT, "namespace": NAMESPACE}
    everything = {
        "verbs": ["*"],
        "apiGroups": ["*"],
        "resources": ["*"],
        "clusterScope": True,
        "namespaces": ["*"],
    }
    rule = {
        "subjects": [{"kind": "ServiceAccount", "serviceAccount": account}],
        "resourceRules": [everything],
    }
    return {
        "apiVersion": _FLOW,
        "kind": "FlowSchema",
        "metadata": {"name": _LEVEL},
        "spec": {
            "priorityLevelConfiguration": {"name": _LEVEL},
            "matchingPrecedence": 2,
            "rules": [rule],
        },
    }
