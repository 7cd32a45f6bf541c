"""The CRD generator: its output, and the models that it refuses because a CRD cannot express them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, WithJsonSchema, create_model

from devcluster import manifests
from fournos.app.generate import files, main
from fournos.engine.api.crd import Definition, InexpressibleError, Model, crd, described, schema
from fournos.engine.api.rules import Rule, validations
from fournos.engine.kube.resource import Resource

REPOSITORY = Path(__file__).parents[3]


def of_field(annotation: Any, field: Any = None) -> dict[str, Any]:
    """The schema of spec.x, of this type."""
    spec = create_model(
        "Spec",
        __base__=Model,
        __doc__="A spec.",
        x=(annotation, described("A field.") if field is None else field),
    )
    kind = create_model("Kind", __base__=Model, __doc__="A kind.", spec=(spec, described("The spec.")))
    found: dict[str, Any] = schema(kind)["properties"]["spec"]["properties"]["x"]
    return found


class Color(StrEnum):
    RED = "red"


class Inner(Model):
    """An inner object."""

    name: str = described("Its name.", "n", maxLength=5)
    count: int = described("How many.", 3, crd_default=True)


class Tree(Model):
    """A tree."""

    branches: list[Tree] = described("More trees.", [], maxItems=3)


class Keyed(Model):
    """An entry."""

    key: str = Field(description="Its key.", json_schema_extra={"maxLength": 5})
    other: str | None = described("Something else.", maxLength=5)


@pytest.mark.parametrize(
    ("annotation", "field", "wanted"),
    [
        (str | None, described("D.", maxLength=9), {"type": "string", "maxLength": 9}),
        (int | None, described("D.", minimum=1), {"type": "integer", "minimum": 1}),
        (bool, described("D.", True), {"type": "boolean"}),
        (bool, described("D.", True, crd_default=True), {"type": "boolean", "default": True}),
        (Color | None, described("D."), {"type": "string", "enum": ["red"]}),
        (Literal["one"] | None, described("D."), {"type": "string", "enum": ["one"]}),
        (Literal["one", "two"] | None, described("D."), {"type": "string", "enum": ["one", "two"]}),
        (
            int | str | None,
            described("D."),
            {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
        ),
        (
            tuple[Annotated[str, WithJsonSchema({"type": "string", "maxLength": 3})], ...],
            described("D.", (), maxItems=2),
            {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
        ),
        (
            Inner | None,
            described("D."),
            {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": 5, "description": "Its name."},
                    "count": {"type": "integer", "default": 3, "description": "How many."},
                },
            },
        ),
    ],
    ids=str,
)
def test_what_a_field_becomes(annotation: Any, field: Any, wanted: dict[str, Any]) -> None:
    assert of_field(annotation, field) == {"description": "D.", **wanted}


@pytest.mark.parametrize(
    ("annotation", "field", "message"),
    [
        (str | None, described("", maxLength=1), "spec.x: no description"),
        (dict[str, Any], described("D.", {}), "spec.x: an object of unknown fields must say"),
        (Any, described("D."), "spec.x: type None"),
        (int | bool | None, described("D."), "spec.x: a CRD knows one alternative"),
        (int | str | None, described("D.", maxLength=3), "spec.x: a CRD knows one alternative"),
        (Inner | Keyed | None, described("D."), "spec.x: a CRD knows one alternative"),
        (int, Field(default=1, description="D.", gt=0), "spec.x: exclusiveMinimum"),
        (int | None, described("D.", exclusiveMaximum=9), "spec.x: exclusiveMaximum"),
        (set[int], described("D.", set(), maxItems=3), "spec.x: uniqueItems"),
        (Tree | None, described("D."), r"spec.x.branches\[\]: Tree contains itself"),
        (tuple[int, str], described("D.", (1, "a")), "spec.x: prefixItems"),
    ],
    ids=str,
)
def test_what_a_crd_cannot_express(annotation: Any, field: Any, message: str) -> None:
    with pytest.raises(InexpressibleError, match=message):
        of_field(annotation, field)


def test_rules_go_to_their_node() -> None:
    kind = create_model("Kind", __base__=Model, __doc__="A kind.", spec=(Inner, described("The spec.")))
    definition = Definition(kind, Resource("example.org", "v1", "Thing", "things"), "thing")
    rules = (
        Rule("a", "spec.name", "no", "self.name != 'a'", lambda new, _: True),
        Rule("b", "spec.name", "no", "self.name != oldSelf.name", lambda new, _: True, when="update"),
        Rule(
            "c", "metadata.name", "no", "self.metadata.name != 'c'", lambda new, _: True, when="create", at=""
        ),
    )
    root = crd(definition, rules=rules)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert root["properties"]["spec"]["x-kubernetes-validations"] == [
        {
            "rule": "(self.name != 'a') || (oldSelf.hasValue() && !(oldSelf.value().name != 'a'))",
            "message": "no",
            "reason": "FieldValueInvalid",
            "fieldPath": ".name",
            "optionalOldSelf": True,
        },
        {
            "rule": "dyn(self) == dyn(oldSelf) || ((self.name != oldSelf.name))",
            "message": "no",
            "reason": "FieldValueInvalid",
            "fieldPath": ".name",
        },
    ]
    assert root["x-kubernetes-validations"] == [
        {
            "rule": "oldSelf.hasValue() || (self.metadata.name != 'c')",
            "message": "no",
            "reason": "FieldValueInvalid",
            "fieldPath": ".metadata.name",
            "optionalOldSelf": True,
        }
    ]


def test_rules_on_changes_are_one_entry_that_names_each_violated_rule() -> None:
    changes = [
        Rule(name, f"spec.{name}", f"{name} stays", f"{name}()", lambda new, _: True, when="update", at="")
        for name in ("a", "b")
    ]
    assert validations(changes) == [
        {
            "rule": "!has(self.spec) || !has(oldSelf.spec) || dyn(self.spec) == dyn(oldSelf.spec) || "
            "((a()) && (b()))",
            "messageExpression": """((a()) ? '' : "a stays. ") + ((b()) ? '' : "b stays. ")""",
            "reason": "FieldValueInvalid",
            "fieldPath": ".spec",
        }
    ]


def test_names_and_columns_of_the_job() -> None:
    resource, *others = manifests.parse(files()["manifests/crd.yaml"])
    assert [other["spec"]["names"]["kind"] for other in others] == ["FournosSchedule", "FournosCluster"]
    assert resource["metadata"] == {"name": "fournosjobs.fournos.dev"}, (
        "no namespace: applies with and without -n"
    )
    assert resource["spec"]["names"]["shortNames"] == ["fj", "fjob", "fjobs"]
    version = resource["spec"]["versions"][0]
    assert version["subresources"] == {"status": {}}
    shown = [column["name"] for column in version["additionalPrinterColumns"] if not column.get("priority")]
    assert shown == ["Owner", "Phase", "Cluster", "Message", "Age"]


def test_files_are_as_generated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", "--root", str(REPOSITORY)]) == 0, capsys.readouterr().out


def test_check_shows_drift_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", "--root", str(tmp_path)]) == 1
    assert list(tmp_path.iterdir()) == []
    assert main(["--root", str(tmp_path)]) == 0
    assert main(["--check", "--root", str(tmp_path)]) == 0
    page = tmp_path / "docs/reference/fournosjob.md"
    page.write_text(page.read_text().replace("| `spec.owner` |", "| `spec.owned` |"))
    capsys.readouterr()
    assert main(["--check", "--root", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "-| `spec.owned` |" in shown
    assert "+| `spec.owner` |" in shown
