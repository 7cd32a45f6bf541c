"""What each task of a run was: the steps as Tekton resolved them, parameters and results.  Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fournos.engine.kube.resource import Obj
from fournos.history.compare.texts import without_own_name
from fournos.insight.children import TASK_LABEL
from fournos.insight.values import name_of, spec_of, status_of
from fournos.systems.jobs.names import RESULT_NAME

MAX_TEXT: Final = 128 * 1024
"""Characters of the steps of all tasks; of a task beyond them there is the digest alone."""
MAX_VALUE: Final = 2_000
"""Characters of a parameter or of a result."""


def task_of(obj: Obj) -> str:
    """Returns the name of the task in its Pipeline, else that of the object."""
    return str((obj["metadata"].get("labels") or {}).get(TASK_LABEL) or name_of(obj))


def tasks_of(job: str, task_runs: Iterable[Obj]) -> dict[str, dict[str, Any]]:
    """Returns what the tasks of the job `job` were, by their names.

    ConfigMaps and Secrets are in it as Tekton has them: by name, never by content.
    """
    tasks: dict[str, dict[str, Any]] = {}
    left = MAX_TEXT
    for task_run in task_runs:
        resolved = status_of(task_run).get("taskSpec")
        if not resolved:
            continue
        text = json.dumps(resolved, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        # As of a text of several lines: the digest of the same steps is the same in every run.
        digest = hashlib.sha256(without_own_name(f"{text}\n", job).encode("utf-8", "replace")).hexdigest()
        task: dict[str, Any] = {"digest": f"sha256:{digest}"}
        if len(text) <= left:
            left -= len(text)
            task["taskSpec"] = resolved
        task["params"] = _values(spec_of(task_run).get("params"))
        # Those of the benchmark are stored as results.
        task["results"] = _values(status_of(task_run).get("results"), without=RESULT_NAME)
        tasks[task_of(task_run)] = {name: value for name, value in task.items() if value}
    return tasks


def _values(named: Iterable[Mapping[str, Any]] | None, without: str = "") -> dict[str, str]:
    return {
        str(one.get("name")): _text(one.get("value"))[:MAX_VALUE]
        for one in named or ()
        if one.get("name") != without
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
