"""The job of a page: as it is now, or as the history last saw it; and parts of a page that are requested."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, urlencode

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.errors import FournosError, MissingError, NoHistoryError
from fournos.client.job_methods import read_recorded_job
from fournos.history.records import Run
from fournos.insight.errors import ForbiddenError, KubeError, NotFoundError
from fournos.insight.manifests import dump
from fournos.insight.source import Source
from fournos.insight.values import Key, Obj, key_of, name_of, uid_of
from fournos.web.errors import PageError, page_error
from fournos.web.site import Call

PATIENCE: Final = 3.0
"""Seconds after which a page is shown without a part that has not been read."""
_NOT_FOUND: Final = 404

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class PagePart(Generic[T]):
    """What was read, or why it was not: a missing right is not an absent object."""

    value: T | None = None
    error: PageError | None = None
    no_history: bool = False
    """True if the cluster has no history."""

    @property
    def absent(self) -> bool:
        """True if there is no such thing."""
        return self.error is not None and self.error.status == _NOT_FOUND

    @property
    def problem(self) -> PageError | None:
        """Why it cannot be shown; None if it was read, or if there is no such thing."""
        return None if self.absent else self.error

    def map(self, change: Callable[[T], U]) -> PagePart[U]:
        """The same part with a changed value."""
        value = None if self.value is None else change(self.value)
        return PagePart(value, self.error, self.no_history)


async def part(reading: Awaitable[T], *, patience: float = PATIENCE) -> PagePart[T]:
    """Awaits the reading of one part."""
    try:
        async with asyncio.timeout(patience):
            return PagePart(await reading)
    except TimeoutError:
        late = f"it was not read within {patience:g} seconds"
        return PagePart(error=PageError(504, "Too late", late, "Load the page again to try once more."))
    except (KubeError, FournosError, PageError) as error:
        return PagePart(error=page_error(error), no_history=isinstance(error, NoHistoryError))


# --- values as texts ------------------------------------------------------------------------------


def text(value: Any) -> str:
    """The value on one line: a text as it is, anything else as YAML."""
    if isinstance(value, str):
        return value
    return dump(value, width=10_000, flow=True).removesuffix("\n...\n").strip()


# --- the job --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JobSubject:
    """The job of a page."""

    raw: Obj
    live: bool
    """False if only the history has it."""
    run: Run | None = None
    """Its row in the history, if the job was found there."""

    @property
    def uid(self) -> str:
        return uid_of(self.raw)

    @property
    def namespace(self) -> str:
        return key_of(self.raw).namespace

    def address(self, page: str = "", **query: str) -> str:
        """The address of the job's page, or of one of its pages below."""
        return address(self.namespace, name_of(self.raw), page, uid="" if self.live else self.uid, **query)

    @property
    def resubmit(self) -> str:
        """The address of the form that is filled in from the job."""
        given = {"from": f"{self.namespace}/{name_of(self.raw)}", **({} if self.live else {"uid": self.uid})}
        return f"/submit?{urlencode(given, safe='/')}"


def address(namespace: str, name: str, page: str = "", **query: str) -> str:
    """The address of a job's page; `uid` is the one of several jobs that had this name."""
    path = f"/jobs/{quote(namespace, safe='')}/{quote(name, safe='')}" + (f"/{page}" if page else "")
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def trends_address(namespace: str, uid: str, kpi: str = "") -> str:
    """The address of the trends of a run, or of one of its KPIs."""
    path = f"/trends/{quote(namespace, safe='')}/{quote(uid, safe='')}"
    return f"{path}?{urlencode({'kpi': kpi})}" if kpi else path


def compare_address(*runs: str) -> str:
    """The address of the comparison of runs, each as NAMESPACE/UID; the first is the reference."""
    return f"/compare?{urlencode([('job', run) for run in runs], safe='/')}"


async def subject(call: Call, *, source: Source | None = None) -> JobSubject:
    """Finds the job of the path; the query's `uid` names one of several that had this name.

    `source` is read in place of the watched objects.  Raises FournosError and KubeError.
    """
    key, uid = Key(call.path["namespace"], call.path["name"]), call.query.get("uid", "")
    first: KubeError
    try:
        found = await (source or call.viewer.source).get(FOURNOS_JOB, key)
        if uid in ("", uid_of(found)):
            return JobSubject(found, live=True)
        first = NotFoundError(f"the job {key.name} ({uid}) is gone", status=404)
    except (NotFoundError, ForbiddenError) as error:
        first = error
    return await _recorded(call, key, uid, first)


async def _recorded(call: Call, key: Key, uid: str, first: KubeError) -> JobSubject:
    try:
        recorded = await read_recorded_job(
            call.viewer.client.history, uid or key.name, namespace=key.namespace
        )
    except NoHistoryError:
        fix = "The cluster has no history, which would show jobs that are gone."
        raise PageError(
            404 if isinstance(first, NotFoundError) else 403, "Not here", first.message, fix
        ) from None
    except MissingError:
        raise first from None
    except FournosError as error:
        if isinstance(first, ForbiddenError):
            raise first from None
        raise error
    run = recorded.run.run
    if key.name not in (run.name, run.identity.uid):
        raise PageError(404, "Not here", f"{uid} is not the job {key.name}.", "See the list of all jobs.")
    return JobSubject(recorded.job, live=False, run=run)
