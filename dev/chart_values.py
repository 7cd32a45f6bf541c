"""The values of the Helm chart: their defaults, their schema and their table.  Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml
from pydantic_settings import BaseSettings

from fournos.app.generate import variables
from fournos.engine.runtime.process import ProcessSettings
from fournos.engine.runtime.webhook.registration import WebhookSettings

_NAME: Final = {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
_SWITCH: Final = {"type": "boolean"}
_OBJECT: Final = {"type": "object"}
_OBJECTS: Final = {"type": "array", "items": _OBJECT}
_TEXT: Final = {"type": "string"}
_FULL: Final = {"type": "string", "minLength": 1}
_NAMES: Final = {"type": "array", "items": _FULL}
_TEXTS: Final = {"type": "object", "additionalProperties": _TEXT}
_REPLICAS: Final = {"type": "integer", "minimum": 0}
_EVERY: Final[tuple[type[BaseSettings], ...]] = (WebhookSettings, ProcessSettings)
"""Settings of every process."""


@dataclass(frozen=True)
class Value:
    """A value, by its path in values.yaml, with what JSON Schema says of it."""

    path: str
    default: Any
    schema: Mapping[str, Any]
    text: str


@dataclass(frozen=True)
class SystemValues:
    """What the values of one system start from."""

    name: str
    what: str
    enabled: bool
    replicas: int | None
    """None for a system without a Deployment."""
    resources: Mapping[str, Any]
    settings: type[BaseSettings] | None


GENERAL: Final = (
    Value("image.repository", "quay.io/rh_perfscale/fournos", _FULL, "The one image of all systems."),
    Value("image.tag", "", _TEXT, "Empty: the version of the chart."),
    Value(
        "image.digest", "", {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}, "In place of the tag."
    ),
    Value("image.pullPolicy", "IfNotPresent", {"enum": ["Always", "IfNotPresent", "Never"]}, "Of all pods."),
    Value(
        "image.pullSecrets",
        [],
        {
            "type": "array",
            "items": {"type": "object", "additionalProperties": False, "properties": {"name": _FULL}},
        },
        "Secrets of the registry, as `{name: …}`.",
    ),
    Value("namespaces.create", True, _SWITCH, "Make the namespaces; they stay when the release is removed."),
    Value("namespaces.operator", "fournos-operator", _NAME, "The operator of jobs."),
    Value("namespaces.jobs", "fournos", _NAME, "The jobs."),
    Value("namespaces.secrets", "psap-secrets", _NAME, "Kubeconfigs of clusters, and Vault entries."),
    Value("crds.enabled", True, _SWITCH, "The CRDs; they stay when the release is removed."),
    Value(
        "webhooks.enabled",
        True,
        _SWITCH,
        "Admission webhooks; without them only policies and CRDs refuse, and AppWrappers "
        "create what their authors may not.",
    ),
    Value("networkPolicies.enabled", True, _SWITCH, "NetworkPolicies that leave the ports that are used."),
    Value("tests.image", "docker.io/library/busybox:1.36", _FULL, "Of the first job of `helm test`."),
)
"""Values of the whole chart."""

OF_ONE: Final[Mapping[str, Sequence[Value]]] = {
    "multikueue": (
        Value(
            "configuration",
            {
                "origin": "fournos",
                "externalFrameworks": [
                    {"name": "PipelineRun.v1.tekton.dev"},
                    {"name": "FournosJob.v1.fournos.dev"},
                ],
            },
            _OBJECT,
            "Section multiKueue of Kueue's Configuration; managers that share a worker differ in origin.",
        ),
    ),
    "history": (
        Value(
            "database.secret",
            "",
            _TEXT,
            "Secret with the `url` of a PostgreSQL; empty: SQLite in a volume.",
        ),
        Value(
            "s3.secret",
            "",
            _TEXT,
            "Secret of a bucket for logs and artifacts, as in deploy/history-s3; empty: in the volume.",
        ),
        Value("storage.size", "10Gi", _FULL, "Of the volume, which stays when the release is removed."),
        Value("storage.className", "", _TEXT, "Empty: the default StorageClass."),
        Value(
            "fsGroup",
            65532,
            {"type": ["integer", "null"]},
            "Group that may write to the volume; null where the platform chooses one, as OpenShift does.",
        ),
    ),
    "web": (
        Value("impersonation.enabled", False, _SWITCH, "The page impersonates whom its proxy names."),
        Value("impersonation.groups", ["oidc:perf-team"], _NAMES, "The groups that it may impersonate."),
    ),
}
"""Values that one system alone has, by their paths below its name."""


def _when(path: str, value: Any, path_then: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"if": _nested(path, {"const": value}), "then": _nested(path_then, schema)}


def _nested(path: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    name, _, rest = path.partition(".")
    return {"properties": {name: _nested(rest, schema) if rest else dict(schema)}, "required": [name]}


RULES: Final = (
    # RBAC takes an empty list of names for every name: the page could act for system:masters, too.
    _when("web.impersonation.enabled", True, "web.impersonation.groups", {"minItems": 1}),
    # SQLite has exactly one writer.
    _when("history.database.secret", "", "history.replicas", {"maximum": 1}),
)
"""What one value demands of another."""


def of_system(system: SystemValues) -> list[Value]:
    """Returns the values of a system."""
    values = [Value("enabled", system.enabled, _SWITCH, system.what + ".")]
    if system.replicas is not None:
        settings = ((system.settings,) if system.settings else ()) + _EVERY
        names = sorted({name for each in settings for name in variables(each)})
        setting = {"type": ["string", "integer", "boolean"]}
        values += [
            Value("replicas", system.replicas, _REPLICAS, "Pods of its Deployment."),
            Value("resources", dict(system.resources), _OBJECT, "Requests and limits of the container."),
            Value(
                "settings", {}, _closed(dict.fromkeys(names, setting)), "Settings by their documented names."
            ),
            Value("nodeSelector", {}, _TEXTS, "Labels of its nodes."),
            Value("tolerations", [], _OBJECTS, "Taints that it tolerates."),
            Value("affinity", {}, _OBJECT, "As in a pod."),
        ]
    values += OF_ONE.get(system.name, ())
    return [Value(f"{system.name}.{each.path}", each.default, each.schema, each.text) for each in values]


def default(values: Iterable[Value], path: str) -> Any:
    return next(value.default for value in values if value.path == path)


def all_values(systems: Iterable[SystemValues]) -> list[Value]:
    return [*GENERAL, *(value for system in systems for value in of_system(system))]


def values_yaml(values: Iterable[Value]) -> str:
    """Returns values.yaml: every value with its default and a comment."""
    lines = ["# README.md has the values as a table; values.schema.json refuses others."]
    above: list[str] = []
    for value in values:
        *parents, name = value.path.split(".")
        same = next(
            (n for n, pair in enumerate(zip(parents, above, strict=False)) if pair[0] != pair[1]), None
        )
        shared = min(len(parents), len(above)) if same is None else same
        if not shared:
            lines.append("")
        lines += [f"{'  ' * depth}{parents[depth]}:" for depth in range(shared, len(parents))]
        pad = "  " * len(parents)
        body = yaml.safe_dump({name: value.default}, sort_keys=False).splitlines()
        lines += [f"{pad}# {value.text}", *(f"{pad}{line}" for line in body)]
        above = parents
    return "\n".join(lines) + "\n"


def schema(values: Iterable[Value]) -> dict[str, Any]:
    """Returns values.schema.json: unknown values and wrong types are refused by their names."""
    root = _closed({"global": _OBJECT})
    for value in values:
        *parents, name = value.path.split(".")
        properties = root["properties"]
        for parent in parents:
            properties = properties.setdefault(parent, _closed({}))["properties"]
        properties[name] = value.schema
    return {"$schema": "http://json-schema.org/draft-07/schema#", **root, "allOf": list(RULES)}


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": dict(properties)}


def schema_json(values: Iterable[Value]) -> str:
    return json.dumps(schema(values), indent=2) + "\n"


def readme(values: Iterable[Value]) -> str:
    """Returns the page of the chart: how it is installed, and the table of its values."""
    table = "\n".join(
        f"| `{value.path}` | `{json.dumps(value.default)}` | {value.text} |" for value in values
    )
    return f"""\
# The chart

Generated by `make chart` from the manifests that the install files come from. With its default values it
installs what `install.yaml` does.

    helm install fournos charts/fournos --namespace fournos-operator --create-namespace

Kueue and Tekton come before it, a ClusterQueue such as that of `config/kueue-config.yaml` after it. CRDs,
namespaces, volumes and what is in them stay when the release is removed. `helm test fournos` submits a first
job. [Settings](../../docs/reference/settings.md) are given by their names.

| value | default | |
|---|---|---|
{table}
"""
