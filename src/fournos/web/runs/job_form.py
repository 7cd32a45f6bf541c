"""The form of a new job: its inputs, the jobs it makes, and how these differ from an earlier one.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any, Final

from fournos.api.fournosjob import FournosJobSpec
from fournos.client.submission import axes_of, combinations, varied
from fournos.engine.api.crd import schema
from fournos.engine.api.rules import Violation
from fournos.engine.kube.resource import Obj
from fournos.insight.differences import SpecDifference, differences
from fournos.insight.errors import ManifestError
from fournos.insight.manifests import assign, check, field_path, place, rename, skeleton
from fournos.insight.submit_command import matrix_command, resubmit_command, submit_command
from fournos.insight.values import name_of, spec_of
from fournos.web.forms import LARGEST, Field, InputKind, fields, text_of, value_of, values_of
from fournos.web.runs.subject import JobSubject

MOST: Final = 100
"""Jobs of one matrix."""
_LEFT_OUT: Final = ("apiVersion", "kind", "metadata", "shutdown")
_FIRST: Final = (
    "owner",
    "displayName",
    "pipeline",
    "cluster",
    "hardware.gpuType",
    "hardware.gpuCount",
    "exclusive",
    "priority",
    "executionEngine",
    "env",
)
"""The fields that most jobs need; the others are folded away."""
_CHANGED: Final = (
    "cluster",
    "hardware.gpuType",
    "hardware.gpuCount",
    "priority",
    "executionEngine",
    "env",
)
"""The fields that are changed from one run to the next; those of an earlier job that stay are folded away."""
LABELS: Final = Field("labels", "Labels of the job, to find it by.", InputKind.PAIRS)
PARAMS: Final = "params."
"""The inputs of single parameters: this and the name."""
PRESETS: Final = (
    ("Any cluster with GPUs", "exclusive=false&hardware.gpuCount=1"),
    ("Hold a cluster", "lockOnly=true"),
    ("Without a cluster", "exclusive=false&clusterless=true"),
)
"""Title and query of forms that are filled in already."""


@cache
def inputs() -> tuple[Field, ...]:
    """The inputs of the spec, in the order of its schema."""
    return tuple(fields(schema(FournosJobSpec), skip=_LEFT_OUT))


@cache
def _by_path() -> Mapping[str, Field]:
    return {one.path: one for one in inputs()}


def groups(*, again: bool) -> tuple[list[Field], list[Field]]:
    """The inputs that are shown at once, and those that are folded away; `again`: to repeat a job."""
    first = _CHANGED if again else _FIRST
    return [_by_path()[path] for path in first], [one for one in inputs() if one.path not in first]


def input_of(path: str) -> str:
    """The input of a field: its own, the one that holds it, or the first one in it; else the path."""
    if path.startswith("metadata.labels"):
        return LABELS.path
    if path.startswith(PARAMS):
        return path
    for field in inputs():
        if path == field.path or path.startswith((f"{field.path}.", f"{field.path}[")):
            return field.path
    return next((field.path for field in inputs() if field.path.startswith(f"{path}.")), path)


# --- what is asked for -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AskedJobs:
    """The jobs that a filled-in form makes."""

    manifest: dict[str, Any]
    axes: Mapping[str, Sequence[Any]]
    wrong: tuple[Violation, ...]
    """All that the API server would refuse."""

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """Returns a manifest for each job.  Raises ManifestError."""
        if not self.axes:
            return [self.manifest]
        return [varied(self.manifest, values) for values in combinations(self.axes)]


def wanted(form: Mapping[str, str], base: Obj, namespace: str, params: Sequence[Field] = ()) -> AskedJobs:
    """Returns the jobs of a filled-in form.  Metadata of `base` are kept where the form has none.

    `params` are the inputs of single parameters.
    """
    values, wrong = values_of([*inputs(), *params], form)
    manifest = skeleton()
    own = base.get("metadata") or {}
    manifest["metadata"] = {name: value for name, value in own.items() if name not in ("labels", "namespace")}
    manifest["spec"] = {}
    for path, value in values.items():
        name = path.removeprefix(PARAMS)
        assign(manifest, field_path(path) if name == path else ["spec", "params", name], value, asked=path)
    axes: Mapping[str, Sequence[Any]] = {}
    try:
        labels = value_of(LABELS, form.get(LABELS.path, ""))
        manifest["metadata"] |= {"labels": labels} if labels else {}
    except ValueError as error:
        wrong.append(Violation("metadata.labels", str(error), "form"))
    matrix = form.get("matrix", "")
    if len(matrix) > LARGEST:
        wrong.append(Violation("matrix", f"it is longer than {LARGEST} characters", "form"))
        matrix = ""
    try:
        axes = axes_of(matrix)
        # Counted before they are made: forty lines of two values are a billion.
        if prod(map(len, axes.values())) > MOST:
            wrong.append(Violation("matrix", f"these are more than {MOST} jobs", "form"))
    except ManifestError as error:
        wrong.append(Violation("matrix", error.message, "form"))
    rename(manifest, name=form.get("name", "").strip() or None, generate_name=None)
    place(manifest, asked=None, otherwise=namespace)
    asked = AskedJobs(manifest, axes, ())
    if not wrong:
        try:
            wrong = [one for job in asked.jobs for one in check(job)]
        except ManifestError as error:
            wrong = [Violation("matrix", error.message, "form")]
    return replace(asked, wrong=tuple(dict.fromkeys(wrong)))


def filled(manifest: Obj) -> dict[str, str]:
    """Returns the inputs of a form for a manifest."""
    form = {LABELS.path: text_of(LABELS, (manifest.get("metadata") or {}).get("labels") or None)}
    for field in inputs():
        value: Any = spec_of(manifest)
        for part in field.path.split("."):
            value = (value or {}).get(part)
        form[field.path] = text_of(field, value)
    params = dict(spec_of(manifest).get("params") or {})
    texts = {name: _single(value) for name, value in params.items()}
    form |= {f"{PARAMS}{name}": text for name, text in texts.items() if text}
    others = {name: value for name, value in params.items() if not texts[name]}
    form["params"] = text_of(_by_path()["params"], others or None)
    return form


def _single(value: Any) -> str:
    """The text of a parameter in an input of its own; "" if it would be read otherwise there."""
    lines = value if isinstance(value, list) else [value]
    one_line = all(
        isinstance(line, str) and line == line.strip() and len(line.splitlines()) == 1 for line in lines
    )
    return "\n".join(lines) if one_line else ""


# --- what differs from an earlier job --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Origin:
    """The job that a form was filled in from."""

    about: JobSubject
    manifest: Obj
    """What repeats it without a change."""


def changes(origin: Origin, asked: AskedJobs) -> list[SpecDifference]:
    """How the wanted jobs differ from the earlier one.  The values of an axis stand for one job each.

    An empty field means its default, so a default that the API server has written is not a difference.
    """
    old, new = _compared(origin.manifest), _compared(asked.manifest)
    axes = {_path(path): list(values) for path, values in asked.axes.items()}
    differing = [
        difference
        for difference in differences(old, new)
        if _meaning(difference.path, difference.first) != _meaning(difference.path, difference.second)
        and not any(difference.path == path or difference.path.startswith(f"{path}.") for path in axes)
    ]
    differing += [SpecDifference(path, _value(old, path), values) for path, values in axes.items()]
    return sorted(differing, key=lambda difference: difference.path)


def _compared(manifest: Obj) -> Obj:
    """What of a manifest is compared: the spec, its namespace and its labels."""
    meta = manifest["metadata"]
    kept = {"namespace": meta["namespace"], "labels": meta.get("labels") or {}}
    # Differences are those of `spec`; in their paths metadata stands beside its fields, as with --set.
    return {"spec": {**spec_of(manifest), "metadata": kept}}


def _meaning(path: str, value: Any) -> Any:
    if field := _by_path().get(path):
        return text_of(field, value) or field.default
    groups = any(one.path.startswith(f"{path}.") for one in inputs()) or path == "metadata.labels"
    return None if value == {} and groups else value


def _path(given: str) -> str:
    """The path of an axis in the form of `SpecDifference.path`."""
    parts = field_path(given)
    return _joined(parts[1:] if parts[:1] == ["spec"] else parts)


def _joined(parts: Sequence[str]) -> str:
    return ".".join(part.replace(".", "\\.") for part in parts)


def _value(compared: Obj, path: str) -> Any:
    value: Any = compared
    for part in field_path(f"spec.{path}"):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def varies(asked: AskedJobs, path: str) -> bool:
    """True if a path of `changes` is an axis: each of its values is that of another job."""
    return path in map(_path, asked.axes)


def command(asked: AskedJobs, origin: Origin | None) -> str:
    """The command line that submits the same."""
    namespace = str(asked.manifest["metadata"]["namespace"])
    if asked.axes:
        return matrix_command(asked.axes, namespace)
    if origin is None or not origin.about.live or namespace != origin.about.namespace:
        return submit_command(asked.manifest)
    changed: dict[str, Any] = {}
    for one in changes(origin, asked):
        path = one.path if one.second is not None else _removed(one.path, _compared(asked.manifest))
        changed[path] = one.second
    if name := asked.manifest["metadata"].get("name"):
        changed["metadata.name"] = name
    return resubmit_command(name_of(origin.about.raw), namespace, changed)


def _removed(path: str, compared: Obj) -> str:
    """The path of what was removed: of the outermost map that is gone, not of each field in it."""
    parts = field_path(f"spec.{path}")
    node: Any = compared
    for index, part in enumerate(parts):
        node = node.get(part) if isinstance(node, Mapping) else None
        if node is None:
            return _joined(parts[1 : index + 1])
    return path
