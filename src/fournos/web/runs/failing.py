"""Why a job failed: its category, and the line with which its first failed task ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any, Final, cast

from fournos.client.errors import FournosError
from fournos.client.jobs import AsyncJob
from fournos.client.logs import LogLine
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Obj
from fournos.history.logs.stored import FailingLine, first_failed
from fournos.insight.failure import Category, Failure, failure
from fournos.insight.values import one_line, phase_of
from fournos.web.routes import Call
from fournos.web.runs.lines import plain
from fournos.web.runs.parts import part
from fournos.web.runs.reading import Parts
from fournos.web.runs.subject import JobSubject

_TAIL: Final = 300
"""The last lines of each container that are searched where the history has no log."""
_FRESH: Final = 30.0
"""Seconds after which a page looks for the line again."""
_WAITED: Final = 1.0
"""Seconds that the page waits for a log; a later line is in its next rendering."""


def failed(job: Obj, parts: Parts) -> Failure | None:
    """The first error of a job that failed; None for any other job."""
    if phase_of(job) != "Failed":
        return None
    run = parts.recorded.value.run if parts.recorded.value else None
    if run and run.failure in set(Category) and not (parts.children.value and parts.children.value.runs):
        # What the recorder found while the dependents existed.
        return Failure(Category(run.failure), one_line(run.message))
    return failure(job, parts.children.value) if parts.children.value is not None else None


async def error_line(call: Call, about: JobSubject, first: Failure | None) -> str:
    """The line of the log that shows why a benchmark failed; "" for other failures, or if it has none."""
    if first is None or first.category is not Category.BENCHMARK:
        return ""
    version = str(about.raw["metadata"].get("resourceVersion"))
    key = ("first error", call.viewer.key, about.uid, version)
    read = call.site.memo.get(key, _FRESH, partial(_read, call, about, first.task))
    return plain((await part(read, patience=_WAITED)).value or "")


async def _read(call: Call, about: JobSubject, task: str) -> str:
    """Raises FournosError and KubeError."""
    history = call.viewer.client.history
    try:
        stored = first_failed(await history.stored_logs(about.uid, task=task, namespace=about.namespace))
        if stored is not None:
            return stored.failing_text
    except (FournosError, KubeError):
        pass  # the pods may still have it
    failing, number = FailingLine(), 0
    lines = AsyncJob(call.viewer.client, about.raw).logs(task=task or None, tail=_TAIL)
    async with aclosing(cast(Any, lines)) as found:
        async for line in cast(AsyncIterator[LogLine], found):
            if not line.notice:
                number += 1
                failing.feed(number, line.text)
    return failing.found[1] if failing.found else ""
