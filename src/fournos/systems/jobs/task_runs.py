"""Whether a TaskRun is what Tekton makes of a PipelineRun's task.  Pure.

Tekton lists each TaskRun with the label and the owner reference of a PipelineRun in the status of that
PipelineRun, whoever created it (https://github.com/tektoncd/pipeline, pkg/reconciler/pipelinerun, as of 1.9).
It also lists one that only has the name which it would give to its own, without label or owner.  So a TaskRun
is believed only if the PipelineRun controls it and it runs what the PipelineRun says: the same task with the
same parameters, volumes and pod template.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fournos.api.kinds import TASK_RUN
from fournos.engine.kube.resource import Obj, controls, uid_of

_LATER: Final = re.compile(r"\$\((?:tasks|finally|context\.pipelineTask)\b[^)]*\)")
"""What Tekton fills in when it makes the TaskRun, and status.pipelineSpec still has as it was written."""
_SEVERAL: Final = "[*])"
"""The end of a reference to a list, which becomes any number of items."""
_EMBEDDED: Final = frozenset({"apiVersion", "kind", "metadata", "spec"})
"""Fields of a task that is written in a Pipeline, beside those of a TaskRun's taskSpec."""
_EMPTY: Final[tuple[object, ...]] = (None, "", {}, [])


def children(run: Obj) -> list[str]:
    """Returns the names of the TaskRuns that Tekton lists in the status of the PipelineRun."""
    listed = (run.get("status") or {}).get("childReferences") or ()
    return [str(child["name"]) for child in listed if child.get("kind") == TASK_RUN.kind]


def believed(run: Obj, task_runs: Iterable[Obj]) -> tuple[list[Obj], str]:
    """Returns the TaskRuns that are of the PipelineRun, and what is wrong with another one that it lists.

    `task_runs`: those of its namespace that can be read, its own among them.  With "" as the second value
    the results of the PipelineRun itself are its own, too: otherwise they may be copies of the other one's.
    """
    differences = {task["metadata"]["name"]: (task, difference(task, run)) for task in task_runs}
    own = [task for task, field in differences.values() if not field]
    for name in children(run):
        task, field = differences.get(name, (None, ""))
        if task is None:
            return own, f"TaskRun {name} of it is not there"
        if field:
            return own, f"TaskRun {name} is not what it runs: the {field} of that one differs"
    return own, ""


def difference(task_run: Obj, run: Obj) -> str:
    """Returns the field of the TaskRun that is not as its PipelineRun has it; "" if it is of the run."""
    if not controls(run, task_run):
        return "owner"
    status = run.get("status") or {}
    name = next(
        (
            child.get("pipelineTaskName")
            for child in status.get("childReferences") or ()
            if child.get("name") == task_run["metadata"]["name"]
        ),
        None,
    )
    plan = status.get("pipelineSpec") or {}
    tasks = [*(plan.get("tasks") or ()), *(plan.get("finally") or ())]
    task = next((task for task in tasks if task["name"] == name), None)
    if task is None:
        return "pipelineTask"
    spec = task_run.get("spec") or {}
    embedded = {key: value for key, value in (task.get("taskSpec") or {}).items() if key not in _EMBEDDED}
    same = {
        "taskRef": fits(_reference(task), _reference(spec)),
        "taskSpec": fits(embedded, spec.get("taskSpec") or {}),
        "params": _same_params(task, spec),
        "workspaces": _same_volumes(task, spec, run),
        "podTemplate": _same_pod(name, spec, run),
    }
    return next((field for field, is_same in same.items() if not is_same), "")


def fits(template: Any, value: Any) -> bool:
    """Whether a JSON value is the template with anything in place of what Tekton fills in later.

    Empty fields count as absent.
    """
    if isinstance(template, str):
        return _text_fits(template, value) if isinstance(value, str) else bool(_LATER.fullmatch(template))
    if isinstance(template, Mapping) and isinstance(value, Mapping):
        ours, theirs = _given(template), _given(value)
        return ours.keys() == theirs.keys() and all(fits(ours[name], theirs[name]) for name in ours)
    if isinstance(template, list) and isinstance(value, list):
        return _list_fits(template, value)
    return bool(template == value)


def _among(value: Any, templates: Iterable[Any]) -> bool:
    return any(fits(template, value) for template in templates)


def _text_fits(template: str, text: str) -> bool:
    """Returns whether the text fits the template: its fixed parts must follow each other.  Linear time."""
    first, *rest = _LATER.split(template)
    if not rest:
        return text == template
    *middle, last = rest
    at = len(first)
    if not text.startswith(first) or len(text) < at + len(last):
        return False
    for part in middle:
        place = text.find(part, at)
        if place < 0:
            return False
        at = place + len(part)
    return text.endswith(last) and len(text) - len(last) >= at


def _list_fits(template: Sequence[Any], values: Sequence[Any]) -> bool:
    several = [
        place
        for place, item in enumerate(template)
        if isinstance(item, str) and item.endswith(_SEVERAL) and _LATER.fullmatch(item)
    ]
    if not several:
        return len(template) == len(values) and all(map(fits, template, values))
    head, tail = template[: several[0]], template[several[-1] + 1 :]
    if len(values) < len(head) + len(tail):
        return False
    return all(map(fits, head, values)) and all(map(fits, reversed(tail), reversed(values)))


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in _EMPTY}


def _reference(spec: Mapping[str, Any]) -> dict[str, Any]:
    reference = dict(spec.get("taskRef") or {})
    return {"kind": "Task", **reference} if reference and not reference.get("resolver") else reference


def _same_params(task: Obj, spec: Obj) -> bool:
    plain = {param["name"]: [param.get("value")] for param in task.get("params") or ()}
    allowed = dict(plain)
    matrix = task.get("matrix") or {}
    for param in matrix.get("params") or ():
        values = param.get("value")
        allowed[param["name"]] = [*(values if isinstance(values, list) else ()), values]
    for included in matrix.get("include") or ():
        for param in included.get("params") or ():
            allowed[param["name"]] = [*allowed.get(param["name"], ()), param.get("value")]
    given = {param["name"]: param.get("value") for param in spec.get("params") or ()}
    return plain.keys() <= given.keys() and all(
        _among(value, allowed.get(name, ())) for name, value in given.items()
    )


def _same_volumes(task: Obj, spec: Obj, run: Obj) -> bool:
    """Whether each workspace is bound to what the run binds it to; the path within a volume is free."""
    bound = {binding["name"]: binding for binding in (run.get("spec") or {}).get("workspaces") or ()}
    of_task = {used["name"]: used.get("workspace") or used["name"] for used in task.get("workspaces") or ()}
    for binding in spec.get("workspaces") or ():
        # A task that is written in the Pipeline gets the workspaces that it names, without a list of them.
        name = of_task.get(binding["name"], binding["name"] if task.get("taskSpec") else "")
        if name not in bound or not _among(_source(binding), _sources(bound[name], run)):
            return False
    return True


def _source(binding: Obj) -> dict[str, Any]:
    return {name: value for name, value in _given(binding).items() if name not in ("name", "subPath")}


def _sources(binding: Obj, run: Obj) -> list[dict[str, Any]]:
    """Returns the volumes to which a TaskRun may bind what its run binds so."""
    template = binding.get("volumeClaimTemplate")
    if not template:
        return [_source(binding)]
    prefix = (template.get("metadata") or {}).get("name") or "pvc"
    claim = f"{prefix}-{_digest(binding['name'] + uid_of(run))}"
    # With `coschedule: pipelineruns` the claim is one of a StatefulSet for the run.
    shared = f"{claim}-affinity-assistant-{_digest(run['metadata']['name'])}-0"
    return [{"persistentVolumeClaim": {"claimName": name}} for name in (claim, shared)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _same_pod(name: Any, spec: Obj, run: Obj) -> bool:
    """Whether every part of the pod template is one of the run's: of all tasks, or of this one."""
    ours = run.get("spec") or {}
    own = [part for part in ours.get("taskRunSpecs") or () if part.get("pipelineTaskName") == name]
    templates = [part.get("podTemplate") or {} for part in (ours.get("taskRunTemplate") or {}, *own)]
    for field, value in _given(spec.get("podTemplate") or {}).items():
        parts = [template[field] for template in templates if field in template]
        if isinstance(value, list):
            items = [item for part in parts for item in part]
            if not all(_among(item, items) for item in value):
                return False
        elif not _among(value, parts):
            return False
    return True
