"""Jobs that are gone from the cluster, as the history has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.errors import MissingError, NotAllowedError, UnreachableError
from fournos.systems.jobs.names import ARCHIVED

if TYPE_CHECKING:
    from fournos.client.history import AsyncHistory
    from fournos.engine.kube.resource import Obj
    from fournos.history.records import Detail


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """A job as it was last seen, and its run."""

    job: Obj
    run: Detail


async def read_recorded_job(history: AsyncHistory, name: str, *, namespace: str | None = None) -> RecordedJob:
    """Returns the newest job of this name, or the one of this UID.

    Raises FournosError: MissingError if there is no such job, NoHistoryError if the cluster has no history.
    """
    from fournos.history.records import Document

    found = await history.run(name, kind=FOURNOS_JOB.kind, namespace=namespace)
    return RecordedJob(_without_archived(await history.document(found.run, Document.OBJECT)), found)


def _without_archived(job: Obj) -> Obj:
    """Leaves out the condition Archived: it says what was not yet so when the job was recorded."""
    conditions = (job.get("status") or {}).get("conditions")
    if not conditions:
        return job
    others = [one for one in conditions if one.get("type") != ARCHIVED]
    return {**job, "status": {**job["status"], "conditions": others}}


async def recorded_job(
    history: AsyncHistory, name: str, *, namespace: str | None = None, ended: bool = False
) -> RecordedJob | None:
    """As `read_recorded_job`, but None if the history does not have the job or cannot be read.

    With `ended` a job whose end was not recorded is None, too.  Raises NoHistoryError.
    """
    from fournos.history.records import Ending

    try:
        recorded = await read_recorded_job(history, name, namespace=namespace)
    except (MissingError, NotAllowedError, UnreachableError):
        return None
    return None if ended and recorded.run.run.ending is Ending.OPEN else recorded
