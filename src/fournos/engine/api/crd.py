"""CustomResourceDefinitions from pydantic models.

A CRD has a "structural" schema: without $ref, null and alternatives.  A model that it cannot express raises
an error here, at generation.  It needs limits wherever CEL reads: without them the API server refuses the
CRD, because its rules could cost too much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from fournos.engine.api.rules import Rule, validations
from fournos.engine.kube.resource import Resource

# --- base of the models -----------------------------------------------------------------------------
# The base of all typed resources: how models read JSON, and how fields are described.
#
# The models are only for reading.  A model is never written back to an API server, because fields of a
# newer version would be lost.  Limits (lengths, patterns, bounds) are only in the schema, so that an object
# stored before a limit existed can still be read.

CRD_DEFAULT = "x-crd-default"
"""Schema key of a field whose default the API server sets.

Without it the reader decides on the default, so that a setting of the operator can change it.
"""


class Model(BaseModel):
    """Base of all models: JSON names in camelCase, unknown fields ignored, immutable."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Returns itself, as it is immutable: pydantic copies a default that holds a dict at each reading."""
        return self


def described(
    description: str,
    default: Any = None,
    *,
    crd_default: bool = False,
    list_type: Literal["atomic", "map"] | None = None,
    list_map_keys: Sequence[str] = (),
    **schema: Any,
) -> Any:
    """Returns an optional field.  `schema`: JSON Schema keywords, which limit writing but not reading."""
    extra = dict(schema)
    if crd_default:
        extra[CRD_DEFAULT] = True
    if list_type:
        extra["x-kubernetes-list-type"] = list_type
    if list_map_keys:
        extra["x-kubernetes-list-map-keys"] = list(list_map_keys)
    return Field(default=default, description=description, json_schema_extra=extra)


class StatusCondition(Model):
    """One fact about an object, by type: the shape of every `status.conditions` of ours."""

    type: str = Field(description="Name of the fact.")
    status: str = Field(description="True, False or Unknown.")
    last_transition_time: datetime | None = described("When the status last changed.")
    reason: str | None = described("The cause in one word.")
    message: str | None = described("The cause in a sentence.")
    observed_generation: int | None = described("Generation of the spec that it speaks of.", format="int64")


Schema = dict[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_KEYWORDS = (
    "description",
    "type",
    "nullable",
    "format",
    "default",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
    "properties",
    "items",
    "additionalProperties",
    "x-kubernetes-embedded-resource",
    PRESERVE,
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)
"""The keywords of a schema node, in the order in which they are written."""


class InexpressibleError(Exception):
    """A model has a property that a CRD cannot express."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; priority 1 means only with `-o wide`."""

    name: str
    type: str
    path: str
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale subresource: JSON paths of the wanted and the present number, and of the pods' selector."""

    spec: str
    status: str
    selector: str

    def as_json(self) -> Schema:
        return {
            "specReplicasPath": self.spec,
            "statusReplicasPath": self.status,
            "labelSelectorPath": self.selector,
        }


@dataclass(frozen=True, slots=True)
class Definition:
    """One of our kinds: its model, its resource type and its other names."""

    model: type[BaseModel]
    resource: Resource
    singular: str
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    scale: Scale | None = None
    checked_by: str = ""
    """The command that runs the API server's checks without a cluster."""

    @property
    def name(self) -> str:
        return str(self.resource)


class _WithoutNull(GenerateJsonSchema):
    """Schema generation without null: Kubernetes drops nulls before validation, so optional means absent."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


class _Walk:
    """Converts a JSON schema: inlines references and raises an error for what a CRD cannot express."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def node(self, raw: Schema, path: str, *, described: bool, within: tuple[str, ...]) -> Schema:
        raw, within = self._inlined(dict(raw), path, within)
        raw.pop("title", None)
        default = raw.pop("default", None)
        if raw.pop(CRD_DEFAULT, False):
            raw["default"] = default
        if "const" in raw:
            raw["enum"] = [raw.pop("const")]
        if described and not raw.get("description"):
            raise InexpressibleError(f"{path}: no description; kubectl explain would say nothing")
        if "anyOf" in raw or "x-kubernetes-int-or-string" in raw:
            return self._int_or_string(raw, path)
        unknown = sorted(set(raw) - set(_KEYWORDS))
        if unknown:
            raise InexpressibleError(f"{path}: {', '.join(unknown)}: a CRD cannot say this")
        match raw.get("type"):
            case "object":
                self._object(raw, path, within)
            case "array":
                self._array(raw, path, within)
            case "string" | "integer" | "number" | "boolean":
                pass
            case None if raw.get(PRESERVE):
                pass  # any content; rules cannot read it
            case other:
                raise InexpressibleError(f"{path}: type {other!r}: a CRD needs one plain type")
        return {key: raw[key] for key in _KEYWORDS if key in raw}

    def _inlined(self, raw: Schema, path: str, within: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """Resolves references; a keyword beside a reference overrides the referenced schema."""
        while "$ref" in raw:
            name = str(raw.pop("$ref")).rsplit("/", 1)[-1]
            if name in within:
                raise InexpressibleError(f"{path}: {name} contains itself; a CRD cannot say this")
            within = (*within, name)
            raw = {**self._definitions[name], **raw}
        return raw, within

    def _int_or_string(self, raw: Schema, path: str) -> Schema:
        kinds = sorted(str(option.get("type")) for option in raw.get("anyOf", ()))
        rest = set(raw) - {*INT_OR_STRING, "description", "default", "pattern"}
        if kinds != ["integer", "string"] or rest or any(len(option) != 1 for option in raw["anyOf"]):
            raise InexpressibleError(f"{path}: a CRD knows one alternative, any integer or string")
        kept: Schema = {key: raw[key] for key in ("description", "default", "pattern") if key in raw}
        return {**kept, **INT_OR_STRING}

    def _object(self, raw: Schema, path: str, within: tuple[str, ...]) -> None:
        if "properties" in raw:
            if raw.pop("additionalProperties", False):
                raise InexpressibleError(f"{path}: properties and additionalProperties exclude each other")
            raw["properties"] = {
                name: self.node(child, f"{path}.{name}", described=True, within=within)
                for name, child in raw["properties"].items()
            }
        elif isinstance(raw.get("additionalProperties"), dict):
            raw["additionalProperties"] = self.node(
                raw["additionalProperties"], f"{path}[*]", described=False, within=within
            )
        elif raw.pop("additionalProperties", False) or PRESERVE not in raw:
            raise InexpressibleError(f"{path}: an object of unknown fields must say {PRESERVE}")

    def _array(self, raw: Schema, path: str, within: tuple[str, ...]) -> None:
        if not isinstance(raw.get("items"), dict):
            raise InexpressibleError(f"{path}: a list needs one schema for all its items")
        raw["items"] = self.node(raw["items"], f"{path}[]", described=False, within=within)


def schema(model: type[BaseModel], *, rules: Iterable[Rule] = ()) -> Schema:
    """Returns the structural schema of a kind whose model has the field `spec` and possibly `status`.

    Raises InexpressibleError, which names the field.
    """
    raw = model.model_json_schema(by_alias=True, schema_generator=_WithoutNull, mode="validation")
    walk = _Walk(raw.pop("$defs", {}))
    properties: Schema = {
        "apiVersion": {"description": "Group and version of the API.", "type": "string"},
        "kind": {"description": "Kind of the object.", "type": "string"},
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
    }
    for name, child in raw["properties"].items():
        properties[name] = walk.node(child, name, described=True, within=())
    root: Schema = {"description": raw.get("description", ""), "type": "object", "properties": properties}
    by_node: dict[str, list[Rule]] = {}
    for rule in rules:
        by_node.setdefault(rule.at, []).append(rule)
    for at, rules_there in by_node.items():
        node = root
        for name in filter(None, at.split(".")):
            node = node["properties"][name]
        node["x-kubernetes-validations"] = validations(rules_there)
    return root


def crd(definition: Definition, *, rules: Iterable[Rule] = ()) -> Schema:
    """Returns the CustomResourceDefinition of a kind, ready to apply."""
    columns = [
        {"name": column.name, "type": column.type, "jsonPath": column.path}
        | ({"priority": column.priority} if column.priority else {})
        for column in definition.columns
    ]
    names: Schema = {
        "kind": definition.resource.kind,
        "listKind": f"{definition.resource.kind}List",
        "plural": definition.resource.plural,
        "singular": definition.singular,
    }
    if definition.short_names:
        names["shortNames"] = list(definition.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition.name},
        "spec": {
            "group": definition.resource.group,
            "scope": "Namespaced",
            "names": names,
            "versions": [
                {
                    "name": definition.resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema(definition.model, rules=rules)},
                    "subresources": {"status": {}}
                    | ({"scale": definition.scale.as_json()} if definition.scale else {}),
                    "additionalPrinterColumns": columns,
                }
            ],
        },
    }
