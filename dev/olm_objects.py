"""The objects of install.yaml, divided between an OLM bundle and what is applied before it.  Pure.

OLM dictates these differences from install.yaml:

- All Deployments of a bundle are in one namespace, with their accounts, Services, Secrets and Leases.  So two
  Secrets get other names, and the FournosClusters are in that namespace, too.
- An operator's ClusterRoles are in the ClusterServiceVersion, by account, and OLM makes the accounts.
- Roles are not.  For a bundle that serves all namespaces OLM turns `permissions` into ClusterRoles, and so
  gives the rights of one namespace in all of them.  A binding names its account's namespace, which a bundle
  does not know.  Both are applied before the bundle.
- OLM knows few kinds: no admission policies, webhook configurations or queues.  NetworkPolicies it knows
  since 2025, and earlier versions, like OLM v1, refuse the whole bundle for one.
- OLM makes the Deployments, and an admission policy of ours lets only those do it who may `use` the accounts.
  OLM's own account may do nearly everything, but not that.
- An update of the bundle replaces its objects.  What others fill in is therefore applied before it: Secrets
  of certificates, the list of queued kinds, ClusterRoles that collect their rules by label.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dev.release_install import Document

NAMESPACE: Final = "fournos-operator"
"""The namespace of the bundle's Deployments, as prerequisites.yaml names it."""
BUNDLED: Final = frozenset({"CustomResourceDefinition", "ClusterRole", "Service", "PodDisruptionBudget"})
"""Kinds that are in the bundle beside the ClusterServiceVersion."""
_RBAC: Final = "rbac.authorization.k8s.io"
OLM_ROLE: Final = "fournos-olm"
_OLM_ACCOUNT: Final = "olm-operator-serviceaccount"
_OLM_NAMESPACES: Final = ("openshift-operator-lifecycle-manager", "olm")
"""Where it is on OpenShift and elsewhere."""
_WEBHOOKS: Final = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})
_OWNER_LABEL: Final = "fournos.dev/webhooks-of"
_FRAMEWORKS: Final = "fournos-frameworks"
_SECRETS: Final = {
    "fournos-metrics-cert": "fournos-frameworks-metrics-cert",
    "fournos-webhook-cert": "fournos-frameworks-webhook-cert",
}
"""Secrets of the operator of frameworks whose names the operator of jobs has, too → their names here."""
_OWN_NAMESPACE: Final = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
_VARIABLES: Final[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
    "hearth": {"HEARTH_NAMESPACE": _OWN_NAMESPACE},
    "fournos-multikueue": {"FOURNOS_MULTIKUEUE_NAMESPACE": _OWN_NAMESPACE},
    _FRAMEWORKS: {
        "FOURNOS_METRICS_SECRET": {"value": _SECRETS["fournos-metrics-cert"]},
        "FOURNOS_WEBHOOK_SECRET": {"value": _SECRETS["fournos-webhook-cert"]},
    },
}
"""Deployment → the variables that are another here, or only here."""


@dataclass(frozen=True)
class Division:
    """What becomes of the objects of install.yaml."""

    deployments: Sequence[Document]
    rights: Mapping[str, Sequence[Mapping[str, Any]]]
    """Rules in all namespaces, by the operator's account."""
    bundled: Sequence[Document]
    """Other objects of the bundle, without a namespace."""
    prerequisites: Sequence[Document]
    """What is applied before the bundle."""


def divided(objects: Iterable[Document]) -> Division:
    """Divides the objects.  Raises ValueError if an operator has no rights in all namespaces.

    OLM makes the account of an operator from these rights.
    """
    documents = list(objects)
    homes = {item["metadata"]["namespace"] for item in documents if item["kind"] == "Deployment"}
    documents = [_moved(item, homes) for item in documents if not _is_home(item, homes)]
    deployments = [item for item in documents if item["kind"] == "Deployment"]
    accounts = {item["spec"]["template"]["spec"]["serviceAccountName"] for item in deployments}
    roles = {item["metadata"]["name"]: item for item in documents if item["kind"] == "ClusterRole"}
    bindings = [item for item in documents if _is_of_account(item, accounts, roles)]
    rights: dict[str, list[Mapping[str, Any]]] = {}
    for binding in bindings:
        rules = roles[binding["roleRef"]["name"]]["rules"]
        rights.setdefault(binding["subjects"][0]["name"], []).extend(rules)
    if without := accounts - rights.keys():
        raise ValueError(f"no ClusterRole of its own: {', '.join(sorted(without))}")
    granted = {binding["roleRef"]["name"] for binding in bindings}
    bundled, prerequisites = list[Document](), list[Document]()
    for item in documents:
        if item["kind"] == "Deployment" or item in bindings or _is_made_by_olm(item, accounts, granted):
            continue
        if item["kind"] in BUNDLED and "aggregationRule" not in item:
            bundled.append(_without_namespace(item))
        else:
            prerequisites.append(item)
    prerequisites += _rights_of_olm(sorted(accounts))
    return Division(deployments, dict(sorted(rights.items())), bundled, prerequisites)


def _rights_of_olm(accounts: Sequence[str]) -> list[Document]:
    """Returns the Role by which OLM may make Deployments with these accounts."""
    metadata = {"name": OLM_ROLE, "namespace": NAMESPACE}
    use = {
        "apiGroups": [""],
        "resources": ["serviceaccounts"],
        "resourceNames": [*accounts],
        "verbs": ["use"],
    }
    return [
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": {**metadata}, "rules": [use]},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {**metadata},
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": OLM_ROLE},
            "subjects": [
                {"kind": "ServiceAccount", "name": _OLM_ACCOUNT, "namespace": namespace}
                for namespace in _OLM_NAMESPACES
            ],
        },
    ]


def _is_home(item: Document, homes: set[str]) -> bool:
    """True for the namespace of an operator, other than the one that all of them share here."""
    name = item["metadata"]["name"]
    return item["kind"] == "Namespace" and name in homes and name != NAMESPACE


def _is_of_account(item: Document, accounts: set[str], roles: Mapping[str, Document]) -> bool:
    """True for a binding whose rules the ClusterServiceVersion can list."""
    if item["kind"] != "ClusterRoleBinding" or "aggregationRule" in roles[item["roleRef"]["name"]]:
        return False
    (subject,) = item["subjects"]
    return subject["namespace"] == NAMESPACE and subject["name"] in accounts


def _is_made_by_olm(item: Document, accounts: set[str], granted: set[str]) -> bool:
    name = item["metadata"]["name"]
    if item["kind"] == "ServiceAccount":
        return item["metadata"]["namespace"] == NAMESPACE and name in accounts
    return item["kind"] == "ClusterRole" and name in granted


def _without_namespace(item: Document) -> Document:
    metadata = {name: value for name, value in item["metadata"].items() if name != "namespace"}
    return {**item, "metadata": metadata}


def _moved(item: Document, homes: set[str]) -> Document:
    """Returns the object with NAMESPACE for the namespaces of the operators."""
    copy: Document = json.loads(json.dumps(item))
    metadata = copy["metadata"]
    if metadata.get("namespace") == _FRAMEWORKS:
        _rename_secrets(copy)
    places = [metadata, *(copy.get("subjects") or ())]
    if copy["kind"] in _WEBHOOKS:
        metadata["labels"][_OWNER_LABEL] = NAMESPACE
        places += [webhook["clientConfig"]["service"] for webhook in copy["webhooks"]]
    for place in places:
        if place.get("namespace") in homes:
            place["namespace"] = NAMESPACE
    if copy["kind"] == "Deployment":
        _set_variables(copy)
    return copy


def _rename_secrets(item: Document) -> None:
    if item["kind"] == "Secret":
        item["metadata"]["name"] = _SECRETS[item["metadata"]["name"]]
    for rule in item.get("rules") or () if item["kind"] == "Role" else ():
        if rule["resources"] == ["secrets"]:
            rule["resourceNames"] = [_SECRETS[name] for name in rule["resourceNames"]]


def _set_variables(deployment: Document) -> None:
    changed = _VARIABLES.get(deployment["metadata"]["name"], {})
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    kept = [entry for entry in container["env"] if entry["name"] not in changed]
    container["env"] = [*kept, *({"name": name, **value} for name, value in changed.items())]
