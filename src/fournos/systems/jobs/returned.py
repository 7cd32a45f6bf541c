"""The results that the run of a job of another cluster returned: in the job's status they reach that cluster.

A manager cluster of MultiKueue has no run, and reads nothing of its workers but the status of the copies.
Where the run is, the history reads the run itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

import orjson

from fournos.api.fournosjob import MAX_RESULTS
from fournos.api.kinds import PIPELINE_RUN, TASK_RUN
from fournos.engine.api.values import parse_time
from fournos.engine.kube.resource import Key, Obj, key_of
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.runtime.decision import Answer, LiveGet, Present, Unknown
from fournos.systems.jobs.context import Context
from fournos.systems.jobs.names import RESULT_NAME
from fournos.systems.jobs.task_runs import believed, children

MOST_BYTES: Final = 256 * 1024
"""An object of an API server has 1.5 MB at most, with all else of its status."""
MOST_TASKS: Final = 100
_RETRIED: Final = timedelta(seconds=30)
"""How long after the end of the run an API server that does not answer is asked again."""


def keep_results(ctx: Context) -> bool:
    """Puts the results of the current run into the status; False: not now, as the API server does not answer.

    A run that failed or was stopped has measured something, too: its tasks return what they wrote before.
    Costs one read of the run and one of each task, of jobs of another cluster that had a run.
    """
    run = ctx.run
    if run is None or not prebuilt_name(ctx.job):
        return True
    live_run = ctx.facts.require(LiveGet(PIPELINE_RUN, key_of(run)))
    tasks = ctx.facts.require_all(_tasks(live_run, run))
    if any(isinstance(one, Unknown) and not one.forbidden for one in (live_run, *tasks)) and _early(ctx, run):
        return False
    mine: list[Obj] = []
    if isinstance(live_run, Present):
        mine, problem = believed(live_run.value, [task.value for task in tasks if isinstance(task, Present)])
        if not problem or any(isinstance(task, Unknown) for task in tasks):
            mine.append(live_run.value)
        elif any(_results(live_run.value)):
            text = f"The results of PipelineRun {run['metadata']['name']} itself do not count: {problem}"
            ctx.draft.event("ResultsNotKept", text, warning=True)
    results = [result for obj in mine for result in _results(obj)]
    if not results:
        return True
    size = len(orjson.dumps(results))
    if len(results) > MAX_RESULTS or size > MOST_BYTES:
        text = (
            f"The run returned {len(results)} results of {size} bytes, which the status cannot hold "
            f"(at most {MAX_RESULTS} of {MOST_BYTES} bytes): send them with fournos results push"
        )
        ctx.draft.event("ResultsNotKept", text, warning=True)
        return True
    ctx.draft.put(results=results)
    return True


def _tasks(found: Answer, run: Obj) -> list[LiveGet]:
    """Returns the questions for the TaskRuns of the run."""
    names = children(found.value) if isinstance(found, Present) else []
    namespace = run["metadata"]["namespace"]
    return [LiveGet(TASK_RUN, Key(namespace, name)) for name in names[:MOST_TASKS]]


def _results(obj: Obj) -> Iterable[dict[str, Any]]:
    for one in (obj.get("status") or {}).get("results") or ():
        if one.get("name") == RESULT_NAME and one.get("value"):
            yield {"name": RESULT_NAME, "value": one["value"]}


def _early(ctx: Context, run: Obj) -> bool:
    completed = (run.get("status") or {}).get("completionTime")
    return completed is not None and ctx.now < parse_time(completed) + _RETRIED
