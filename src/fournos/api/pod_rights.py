"""What the author of an object may not get from an operator that makes pods for it.

The admission policies `fournos-operator-account` and `fournos-minicluster-pods` refuse the same at creation.
"""

from __future__ import annotations

from typing import Final

from fournos.engine.api.rules import Json

OPERATOR_ACCOUNTS: Final = frozenset(
    {
        "fournos",
        "hearth",
        "appwrapper-controller-manager",
        "operator-controller-manager",
        "fournos-frameworks",
        "fournos-multikueue",
        "fournos-history",
        "fournos-web",
    }
)
"""The ServiceAccounts of our own Deployments: a pod with one of them has all rights of that operator."""
_CONFINEMENT: Final = ("procMount", "seLinuxOptions", "appArmorProfile", "windowsOptions", "sysctls")
"""Fields of a security context that may loosen what confines a container."""
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
"""Prefix of the annotations of a pod that Kubernetes takes for `appArmorProfile`."""


def operator_account(account: str | None) -> str:
    """Returns why no pod is made with this ServiceAccount; "" if it is not that of an operator."""
    if account not in OPERATOR_ACCOUNTS:
        return ""
    return f"ServiceAccount {account} is for an operator and its own Deployment: name another"


def minicluster_reach(spec: Json) -> tuple[str, ...]:
    """Returns what a MiniCluster asks for beyond containers of its author's own; empty for most."""
    pod, flux = spec.get("pod") or {}, spec.get("flux") or {}
    containers = [
        *(spec.get("containers") or ()),
        *(spec.get("services") or ()),
        flux.get("container") or {},
    ]
    volumes = [volume for container in containers for volume in (container.get("volumes") or {}).values()]
    contexts = [part.get("securityContext") or {} for part in (*containers, pod)]
    asked = {
        "a ServiceAccount": pod.get("serviceAccountName") not in (None, "", "default"),
        "the node's processes": bool(pod.get("hostPID") or pod.get("hostIPC")),
        "a Secret": bool(
            flux.get("mungeSecret")
            or any(container.get("secrets") for container in containers)
            or any(volume.get("secretName") for volume in volumes)
        ),
        "a node's directory": any(volume.get("hostPath") for volume in volumes),
        "a CSI volume": any(volume.get("csiDriver") for volume in volumes),
        "privileges": any(map(_loosened, contexts))
        or any(name.startswith(_APPARMOR) for name in pod.get("annotations") or ()),
    }
    return tuple(name for name, is_asked in asked.items() if is_asked)


def _loosened(context: Json) -> bool:
    """True if the security context adds privileges."""
    added = context.get("addCapabilities") or (context.get("capabilities") or {}).get("add")
    unconfined = (context.get("seccompProfile") or {}).get("type") == "Unconfined"
    return bool(context.get("privileged") or added or unconfined) or any(
        name in context for name in _CONFINEMENT
    )
