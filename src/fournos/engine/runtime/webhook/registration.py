"""The webhook configurations: the objects that register our webhooks at the API server.  Pure.

A configuration is ours by its label, whose value is the operator's namespace.  The leader keeps our
configurations equal to the operator's table.  Every replica adds the certificate authorities, so that its own
certificate is trusted whichever replica leads.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from fournos.engine.kube.kinds import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.runtime.webhook.types import Webhook

LABEL: Final = "fournos.dev/webhooks-of"
"""Label on each configuration of ours; its value is the namespace of the operator that owns it."""
RESOURCES: Final[Mapping[str, Resource]] = {"mutating": MUTATING_WEBHOOKS, "validating": VALIDATING_WEBHOOKS}


@dataclass(frozen=True, slots=True)
class Service:
    """A Service in front of the replicas, on port 443."""

    namespace: str
    name: str

    @property
    def hosts(self) -> tuple[str, ...]:
        """The DNS names for the certificate; the API server verifies the first."""
        short = f"{self.name}.{self.namespace}.svc"
        return (short, f"{short}.cluster.local")

    def client_config(self, path: str) -> dict[str, Any]:
        service = {"namespace": self.namespace, "name": self.name, "path": path, "port": 443}
        return {"service": service}


@dataclass(frozen=True, slots=True)
class Address:
    """A base URL at which the API server reaches this process directly; for development."""

    url: str

    def __post_init__(self) -> None:
        """Raises ValueError for a URL that the API server would reject."""
        parts = urlsplit(self.url)
        if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username:
            raise ValueError(f"{self.url!r} is not an address such as https://192.0.2.7:9443")

    @property
    def hosts(self) -> tuple[str, ...]:
        return (str(urlsplit(self.url).hostname),)

    def client_config(self, path: str) -> dict[str, Any]:
        return {"url": self.url.rstrip("/") + path}


Target = Service | Address


def configurations(
    webhooks: Iterable[Webhook], target: Target, *, owner: str, bundle: bytes = b"", segment: str = ""
) -> dict[tuple[Resource, str], Obj]:
    """Returns the wanted objects by resource type and name.

    `owner` is the label's value; `segment` is the first segment of the paths.  Every field is set explicitly,
    so that the API server adds no default and a comparison with its copy finds real differences only.
    """
    bodies: dict[tuple[Resource, str], dict[str, Any]] = {}
    for webhook in webhooks:
        resource = RESOURCES[webhook.kind]
        body = bodies.setdefault(
            (resource, webhook.configuration),
            {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "metadata": {"name": webhook.configuration, "labels": {LABEL: owner}},
                "webhooks": [],
            },
        )
        body["webhooks"].append(_entry(webhook, target, bundle, segment))
    return dict(bodies)


def _entry(webhook: Webhook, target: Target, bundle: bytes, segment: str) -> dict[str, Any]:
    config = target.client_config(f"/{segment}{webhook.path}" if segment else webhook.path)
    if bundle:
        config["caBundle"] = base64.b64encode(bundle).decode()
    entry: dict[str, Any] = {
        "name": webhook.name,
        "clientConfig": config,
        "rules": [
            {
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "operations": list(webhook.operations),
                "resources": [
                    f"{resource.plural}/{part}" if part else resource.plural for part in webhook.subresources
                ],
                "scope": "Namespaced" if resource.namespaced else "Cluster",
            }
            for resource in webhook.resources
        ],
        "admissionReviewVersions": ["v1"],
        "failurePolicy": webhook.failure_policy,
        "matchPolicy": "Equivalent",
        "namespaceSelector": dict(webhook.namespaces),
        "objectSelector": dict(webhook.objects),
        "sideEffects": "None",
        "timeoutSeconds": webhook.timeout,
    }
    if webhook.kind == "mutating":
        entry["reinvocationPolicy"] = "IfNeeded" if webhook.again else "Never"
    if webhook.conditions:
        entry["matchConditions"] = [{"name": name, "expression": cel} for name, cel in webhook.conditions]
    return entry


def correction(existing: Obj, body: Obj, *, whole: bool) -> dict[str, Any] | None:
    """Returns the merge patch that corrects a configuration of ours, None if it is correct.

    `whole`: corrects all entries by the table; else only the authorities, because another version may have
    written the entries.
    """
    entries: Sequence[Obj] = existing.get("webhooks") or ()
    if whole:
        better = list(body["webhooks"])
    else:
        bundle = body["webhooks"][0]["clientConfig"]["caBundle"]
        better = [
            {**entry, "clientConfig": {**entry["clientConfig"], "caBundle": bundle}} for entry in entries
        ]
    if better == list(entries):
        return None
    return {
        # The precondition: other replicas write too, and the list of webhooks is replaced.
        "metadata": {"resourceVersion": existing["metadata"]["resourceVersion"]},
        "webhooks": better,
    }


def carries(existing: Obj, authority: bytes) -> bool:
    """True if every entry of the configuration trusts this authority."""
    entries: Sequence[Obj] = existing.get("webhooks") or ()
    return bool(entries) and all(
        authority in base64.b64decode(entry["clientConfig"].get("caBundle") or "") for entry in entries
    )
