"""The job of a page: as it is now, or as the history last saw it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlencode

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.errors import FournosError, MissingError, NoHistoryError
from fournos.client.recorded_jobs import read_recorded_job
from fournos.engine.kube.errors import ForbiddenError, KubeError, NotFoundError
from fournos.engine.kube.resource import Key, Obj, key_of, uid_of
from fournos.history.records import Run
from fournos.insight.source import Source
from fournos.insight.values import name_of
from fournos.web.errors import PageError
from fournos.web.routes import Call


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


def groups_address(namespace: str, fingerprint: str, kpi: str) -> str:
    """The address of a KPI of comparable runs by the fields in which they differ."""
    return f"/kpis?{urlencode({'namespace': namespace, 'fingerprint': fingerprint, 'kpi': kpi})}"


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
