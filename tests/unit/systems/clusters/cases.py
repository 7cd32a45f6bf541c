"""What each rule of a FournosCluster refuses, for the check in Python and for a real API server."""

from __future__ import annotations

from typing import Any


def cluster(name: str = "c1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosCluster",
        "metadata": {"name": name},
        "spec": {"kubeconfigSecret": f"kubeconfig-{name}"[:60], **spec},
    }


CREATIONS: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("name-length", cluster("n" * 43), cluster("n" * 42)),
    ("kubeconfigsecret-text", cluster(kubeconfigSecret="Not_a_name"), cluster(kubeconfigSecret="a.b-c")),
    ("kubeconfigsecret-text", cluster(kubeconfigSecret=""), cluster()),
    ("ttl-text", cluster(ttl="1w"), cluster(ttl="7d")),
    ("ttl-text", cluster(ttl="1h30m"), cluster(ttl="90m")),
    ("ttl-text", cluster(ttl="-1m"), cluster(ttl="")),
    ("owner-plain", cluster(owner="\x1b]52;c;ZXZpbA==\x07"), cluster(owner="Zoë")),
    ("owner-plain", cluster(owner="a\x7f"), cluster(owner="a b")),
    ("gpudiscoveryinterval-text", cluster(gpuDiscoveryInterval="30s"), cluster(gpuDiscoveryInterval="1m")),
    ("gpudiscoveryinterval-text", cluster(gpuDiscoveryInterval="0m"), cluster(gpuDiscoveryInterval="10m")),
)
"""Rule, a spec that breaks it, one that does not."""
