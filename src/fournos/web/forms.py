"""The form of a job: the fields that people use, and all others as YAML.  Pure."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from fournos.api.fournosjob import DEFAULT_PIPELINE
from fournos.insight.errors import ManifestError, Violation
from fournos.insight.manifests import assign, check, dump, field_path, load_all, place, rename, skeleton
from fournos.insight.values import Obj, SpecDifference, differences, spec_of
from fournos.web.runs.subject import JobSubject

LARGEST: Final = 2**16
"""Maximum characters of a value in YAML."""
DEEPEST: Final = 50


class InputKind(StrEnum):
    TEXT = "text"
    NUMBER = "number"
    CHOICE = "choice"
    """true or false."""
    PAIRS = "pairs"
    """A map of texts, one NAME=VALUE a line."""
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class Field:
    """One input of the form."""

    path: str
    """Relative to the spec, such as hardware.gpuCount; also the name of the input."""
    help: str
    kind: InputKind = InputKind.TEXT
    default: str = ""
    """What an empty input means; "" if that is nothing."""


INPUTS: Final = (
    Field("owner", "Team or person that the job belongs to."),
    Field("displayName", "Name for people; empty: the job's own name."),
    Field("pipeline", "Tekton Pipeline that runs the job.", default=DEFAULT_PIPELINE),
    Field("cluster", "Cluster to run on; an exclusive job locks it."),
    Field("hardware.gpuType", "Empty: the execution engine chooses."),
    Field("hardware.gpuCount", "GPUs that the job needs.", InputKind.NUMBER),
    Field("exclusive", "Lock the cluster, so that no other job runs there.", InputKind.CHOICE, "true"),
    Field("priority", "WorkloadPriorityClass."),
    Field("executionEngine", "The engine's name, and its configuration.", InputKind.YAML),
    Field("params", "Parameters of the Pipeline: texts, or lists of texts.", InputKind.YAML),
    Field("env", "Variables for the execution engine.", InputKind.PAIRS),
)
_CHANGED: Final = ("cluster", "hardware.gpuType", "hardware.gpuCount", "priority", "executionEngine", "env")
"""The fields that are changed from one run to the next; those of an earlier job that stay are folded away."""
LABELS: Final = Field("labels", "Labels of the job, to find it by.", InputKind.PAIRS)
OTHERS: Final = Field("spec", "All other fields, such as retry: {limit: 2}, or ttl: 7d.", InputKind.YAML)


def groups(*, again: bool) -> tuple[list[Field], list[Field]]:
    """The inputs that are shown at once, and those that are folded away; `again`: to repeat a job."""
    first = [one for one in INPUTS if one.path in _CHANGED or not again]
    return first, [*(one for one in INPUTS if one not in first), LABELS, OTHERS]


def input_of(path: str) -> str:
    """The input of a field: its own, the one that holds it, or the first one in it; else that of others."""
    if path.startswith("metadata"):
        return LABELS.path if path.startswith("metadata.labels") else path
    for field in INPUTS:
        if path == field.path or path.startswith((f"{field.path}.", f"{field.path}[")):
            return field.path
    return next((field.path for field in INPUTS if field.path.startswith(f"{path}.")), path and OTHERS.path)


# --- values as texts, and back --------------------------------------------------------------------


def text_of(field: Field, value: Any) -> str:
    """Returns the text that stands in the input for a value; "" for None."""
    if value is None:
        return ""
    match field.kind:
        case InputKind.PAIRS:
            return "\n".join(f"{name}={_line(str(one))}" for name, one in value.items())
        case InputKind.YAML:
            return dump(value, width=100)
        case InputKind.CHOICE:
            return "true" if value else "false"
    return str(value)


def value_of(field: Field, text: str) -> Any:
    """Returns the value of an input; None if it is empty.  Raises ValueError, whose text is for people."""
    given = text.replace("\r\n", "\n")
    if not given.strip():
        return None
    match field.kind:
        case InputKind.NUMBER:
            return _number(given.strip())
        case InputKind.CHOICE:
            if given.strip() not in ("true", "false"):
                raise ValueError("write one of true, false")
            return given.strip() == "true"
        case InputKind.PAIRS:
            return dict(_pair(line) for line in given.splitlines() if line.strip())
        case InputKind.YAML:
            return _mapping(given)
    return given.strip()


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("write a whole number") from None


def _pair(line: str) -> tuple[str, str]:
    name, equals, value = line.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"{line.strip()!r:.60} is not NAME=VALUE")
    if value.startswith('"'):
        try:
            value = str(json.loads(value))
        except ValueError:
            raise ValueError(f"the value of {name.strip()} begins with a quote: write it as JSON") from None
    return name.strip(), value


def _line(value: str) -> str:
    """A value of several lines, or that begins with a quote, stands as JSON on one line."""
    return json.dumps(value) if len(f"{value}.".splitlines()) > 1 or value.startswith('"') else value


def _mapping(text: str) -> dict[str, Any]:
    if len(text) > LARGEST:
        raise ValueError(f"it is longer than {LARGEST} characters")
    try:
        documents = load_all(text, deepest=DEEPEST)
    except ValueError as error:
        raise ValueError(f"it {error}") from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ValueError("write a map, such as forge: {project: llmd}")
    return documents[0]


# --- the form of a job ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AskedJob:
    """The job that a filled-in form makes."""

    manifest: dict[str, Any]
    wrong: tuple[Violation, ...]
    """All that the API server would refuse."""


def wanted(form: Mapping[str, str], base: Obj, namespace: str) -> AskedJob:
    """Returns the job of a filled-in form.  Metadata of `base` are kept where the form has none."""
    values: dict[str, Any] = {}
    wrong: list[Violation] = []
    for field in (OTHERS, *INPUTS, LABELS):
        try:
            values[field.path] = value_of(field, form.get(field.path, ""))
        except ValueError as error:
            at = "metadata.labels" if field is LABELS else "spec" if field is OTHERS else f"spec.{field.path}"
            wrong.append(Violation(at, str(error), "form"))
    manifest = skeleton()
    own = base.get("metadata") or {}
    manifest["metadata"] = {name: value for name, value in own.items() if name not in ("labels", "namespace")}
    if labels := values.pop(LABELS.path, None):
        manifest["metadata"]["labels"] = labels
    manifest["spec"] = values.pop(OTHERS.path, None) or {}
    for path, value in values.items():
        try:
            if value is not None:
                assign(manifest, field_path(path), value, asked=path)
        except ManifestError as error:  # in the other fields stands a text in place of a map
            wrong.append(Violation("spec", error.message, "form"))
    rename(manifest, name=form.get("name", "").strip() or None, generate_name=None)
    place(manifest, asked=None, otherwise=namespace)
    return AskedJob(manifest, tuple(dict.fromkeys(wrong or check(manifest))))


def filled(manifest: Obj) -> dict[str, str]:
    """Returns the inputs of a form for a manifest."""
    others: dict[str, Any] = copy.deepcopy(dict(spec_of(manifest)))
    form = {LABELS.path: text_of(LABELS, (manifest.get("metadata") or {}).get("labels") or None)}
    for field in INPUTS:
        holder, _, name = field.path.rpartition(".")
        holding = others.get(holder) if holder else others
        form[field.path] = text_of(field, holding.pop(name, None) if isinstance(holding, dict) else None)
        if holder and not holding:
            others.pop(holder, None)
    form[OTHERS.path] = text_of(OTHERS, others or None)
    return form


@dataclass(frozen=True, slots=True)
class Origin:
    """The job that a form was filled in from."""

    about: JobSubject
    manifest: Obj
    """What repeats it without a change."""


def changes(origin: Origin, asked: AskedJob) -> list[SpecDifference]:
    """How the spec of the wanted job differs from that of the earlier one.

    An empty field means its default, so a default that the API server has written is not a difference.
    """
    return [
        difference
        for difference in differences(origin.manifest, asked.manifest)
        if _meaning(difference.path, difference.first) != _meaning(difference.path, difference.second)
    ]


def _meaning(path: str, value: Any) -> Any:
    field = next((one for one in INPUTS if one.path == path), None)
    if field is None:
        return value
    return text_of(field, value) or field.default
