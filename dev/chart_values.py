"""The values of the Helm chart: their defaults, their schema and their table.  Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml
from pydantic_settings import BaseSettings

from fournos.app.settings_page import variables
from fournos.engine.runtime.metrics_server.settings import MetricsSettings
from fournos.engine.runtime.webhook.settings import WebhookSettings

_NAME: Final = {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
_SWITCH: Final = {"type": "boolean"}
_OBJECT: Final = {"type": "object"}
_EVERY: Final = (WebhookSettings, MetricsSettings)
"""Settings of every process."""


@dataclass(frozen=True)
class SystemValues:
    """The values of one system."""

    name: str
    what: str
    enabled: bool
    replicas: int | None
    """None for a system without a Deployment."""
    resources: Mapping[str, Any]
    settings: type[BaseSettings] | None


def values_yaml(systems: Iterable[SystemValues], version: str) -> str:
    """Returns values.yaml: every value with its default and a comment."""
    parts = [
        "# The values of the chart.  README.md has them as a table; values.schema.json refuses others.\n",
        *(_entry(name, value, text) for name, value, text in _general(version)),
    ]
    for system in systems:
        body: dict[str, Any] = {"enabled": system.enabled}
        if system.replicas is not None:
            body |= {
                "replicas": system.replicas,
                "resources": dict(system.resources),
                "settings": {},
                "nodeSelector": {},
                "tolerations": [],
                "affinity": {},
            }
        parts.append(_entry(system.name, body, system.what))
    return "\n".join(parts)


def _entry(name: str, value: Any, text: str) -> str:
    return f"# {text}\n{yaml.safe_dump({name: value}, sort_keys=False)}"


def _general(version: str) -> list[tuple[str, Any, str]]:
    image = {
        "repository": "quay.io/rh_perfscale/fournos",
        "tag": "",
        "digest": "",
        "pullPolicy": "IfNotPresent",
        "pullSecrets": [],
    }
    return [
        ("image", image, f"The one image of all systems; an empty tag is that of the chart, {version}."),
        (
            "namespaces",
            {"create": True, "operator": "fournos-operator", "jobs": "fournos", "secrets": "psap-secrets"},
            "The namespaces of the operator of jobs, of the jobs, and of kubeconfigs and Vault entries.",
        ),
        ("crds", {"enabled": True}, "The CustomResourceDefinitions; they stay when the release is removed."),
        ("webhooks", {"enabled": True}, "Admission webhooks; without them only policies and CRDs refuse."),
        ("networkPolicies", {"enabled": True}, "NetworkPolicies that leave the ports that are used."),
        ("tests", {"image": "docker.io/library/busybox:1.36"}, "The image of the first job of `helm test`."),
    ]


def schema(systems: Iterable[SystemValues]) -> dict[str, Any]:
    """Returns values.schema.json: unknown values and wrong types are refused by their names."""
    properties: dict[str, Any] = {
        "image": _closed(
            repository={"type": "string", "minLength": 1},
            tag={"type": "string"},
            digest={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
            pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
            pullSecrets={"type": "array", "items": _closed(name={"type": "string", "minLength": 1})},
        ),
        "namespaces": _closed(create=_SWITCH, operator=_NAME, jobs=_NAME, secrets=_NAME),
        **{name: _closed(enabled=_SWITCH) for name in ("crds", "webhooks", "networkPolicies")},
        "tests": _closed(image={"type": "string", "minLength": 1}),
        "global": _OBJECT,
    }
    properties |= {system.name: _of_system(system) for system in systems}
    return {"$schema": "http://json-schema.org/draft-07/schema#", **_closed(**properties)}


def _of_system(system: SystemValues) -> dict[str, Any]:
    if system.replicas is None:
        return _closed(enabled=_SWITCH)
    classes = (*((system.settings,) if system.settings else ()), *_EVERY)
    names = sorted({name for settings in classes for name in variables(settings)})
    value = {"type": ["string", "integer", "boolean"]}
    return _closed(
        enabled=_SWITCH,
        replicas={"type": "integer", "minimum": 0},
        resources=_OBJECT,
        settings=_closed(**dict.fromkeys(names, value)),
        nodeSelector={"type": "object", "additionalProperties": {"type": "string"}},
        tolerations={"type": "array", "items": _OBJECT},
        affinity=_OBJECT,
    )


def _closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def schema_json(systems: Iterable[SystemValues]) -> str:
    return json.dumps(schema(systems), indent=2) + "\n"


def readme(systems: Iterable[SystemValues], version: str) -> str:
    """Returns the page of the chart: how it is installed, and the table of its values."""
    rows = [
        (f"{name}.{key}", value, text)
        for name, values, text in _general(version)
        for key, value in values.items()
    ]
    for system in systems:
        rows.append((f"{system.name}.enabled", system.enabled, system.what))
        if system.replicas is not None:
            rows += [
                (f"{system.name}.replicas", system.replicas, "Pods of its operator."),
                (f"{system.name}.resources", dict(system.resources), "Requests and limits of the container."),
                (
                    f"{system.name}.settings",
                    {},
                    "[Settings](../../docs/reference/settings.md) by their names.",
                ),
                (
                    f"{system.name}.nodeSelector",
                    {},
                    "Node labels; `tolerations` and `affinity` are there, too.",
                ),
            ]
    table = "\n".join(f"| `{name}` | `{json.dumps(value)}` | {text} |" for name, value, text in rows)
    return f"""\
# The chart

Generated by `make chart` from the manifests that the install files come from. With its default values it
installs what `install.yaml` does.

    helm install fournos charts/fournos --namespace fournos-operator --create-namespace

Kueue and Tekton come before it, a ClusterQueue such as that of `config/kueue-config.yaml` after it. CRDs,
namespaces and what is in them stay when the release is removed. `helm test fournos` submits a first job.

| value | default | |
|---|---|---|
{table}
"""
