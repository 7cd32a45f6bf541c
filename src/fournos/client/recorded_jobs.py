"""Jobs that are gone from the cluster, as the history has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.errors import MissingError, NotAllowedError, UnreachableError

if TYPE_CHECKING:
    from fournos.client.history import AsyncHistory
    from fournos.history.api.models import RunDetail
    from fournos.kube.resource import Obj


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """A job as it was last seen, and its run with the waiting ledger."""

    job: Obj
    run: RunDetail


async def recorded_job(
    history: AsyncHistory, name: str, *, namespace: str | None = None, ended: bool = False
) -> RecordedJob | None:
    """Returns the newest job of this name; None if the history does not have it or cannot be read.

    With `ended` a job whose end was not recorded is None, too.  Raises NoHistoryError if the cluster has no
    history.
    """
    from fournos.history.records import Document, Ending

    try:
        found = await history.run(name, kind=FOURNOS_JOB.kind, namespace=namespace)
        if ended and found.run.ending is Ending.OPEN:
            return None
        return RecordedJob(await history.document(found.run, Document.OBJECT), found)
    except (MissingError, NotAllowedError, UnreachableError):
        return None
