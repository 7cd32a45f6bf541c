"""What the author of an object may not get from an operator that makes pods for it.

The admission policies `fournos-operator-account` and `fournos-minicluster-pods` refuse the same at creation.
"""

from __future__ import annotations

from collections.abc import Mapping
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
OWN_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(fields.split())
    for name, fields in {
        "spec": "containers services size maxSize minSize tasks interactive launcher jobLabels "
        "deadlineSeconds backoffLimit cleanup shareProcessNamespace network flux logging archive pod "
        "suspend managedBy",
        "pod": "restartPolicy nodeSelector nodeAffinity dnsPolicy resources securityContext",
        "flux": "container arch submitCommand wrap connectTimeout connextTimeout optionFlags minimalService "
        "disableSocket topology noWaitSocket completeWorkers logLevel curveCert scheduler bursting "
        "leadBroker brokerConfig environment",
        "container": "name image command commands preCommand workingDir environment ports pullAlways "
        "imagePullPolicy launcher batch batchRaw logs runFlux noWrapEntrypoint cores diagnostics fluxUser "
        "fluxuser volumes lifeCycle resources securityContext disable pythonPath mountPath",
        "volume": "path configMapName items claimName readOnly emptyDir emptyDirMedium emptyDirSizeLimit",
        "resources": "limits requests",
        "securityContext": "runAsUser runAsGroup runAsNonRoot readOnlyRootFilesystem "
        "allowPrivilegeEscalation fsGroup fsGroupChangePolicy supplementalGroups supplementalGroupsPolicy "
        "capabilities",
        "capabilities": "drop",
    }.items()
}
"""What a MiniCluster may have without the right to create pods; every other field takes that right.

A list of what is allowed: a field that is added to the API is refused until somebody has looked at it.
"""
_OWN_VALUES: Final = {
    "serviceAccountName": "default",
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""Other fields with the one value that gives nothing away."""
_UNSET: Final[tuple[object, ...]] = (False, "", [], {}, None)


def operator_account(account: str | None) -> str:
    """Returns why no pod is made with this ServiceAccount; "" if it is not that of an operator."""
    if account not in OPERATOR_ACCOUNTS:
        return ""
    return f"ServiceAccount {account} is for an operator and its own Deployment: name another"


def minicluster_reach(spec: Json) -> tuple[str, ...]:
    """Returns the fields that go beyond containers of the author's own, such as pod.labels; none for most."""
    pod, flux = spec.get("pod") or {}, spec.get("flux") or {}
    beyond = [*_beyond("spec", "", spec), *_beyond("pod", "pod.", pod), *_beyond("flux", "flux.", flux)]
    beyond += _in_context("pod.", pod)
    parts = [
        *(("containers.", container) for container in spec.get("containers") or ()),
        *(("services.", container) for container in spec.get("services") or ()),
        ("flux.container.", flux.get("container") or {}),
    ]
    for at, container in parts:
        beyond += _beyond("container", at, container)
        beyond += _beyond("resources", f"{at}resources.", container.get("resources") or {})
        beyond += _in_context(at, container)
        for volume in (container.get("volumes") or {}).values():
            beyond += _beyond("volume", f"{at}volumes.", volume)
    return tuple(dict.fromkeys(beyond))


def _in_context(at: str, part: Json) -> list[str]:
    context = part.get("securityContext") or {}
    capabilities = context.get("capabilities") or {}
    return [
        *_beyond("securityContext", f"{at}securityContext.", context),
        *_beyond("capabilities", f"{at}securityContext.capabilities.", capabilities),
    ]


def _beyond(kind: str, at: str, part: Json) -> list[str]:
    return [
        f"{at}{name}"
        for name, value in part.items()
        if name not in OWN_FIELDS[kind]
        and not any(value is unset or (value == unset and value != 0) for unset in _UNSET)
        and value != _OWN_VALUES.get(name, _UNSET)
    ]
