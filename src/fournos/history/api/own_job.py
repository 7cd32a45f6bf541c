"""Whose job calls: the FournosJob of the pod whose token it is.

All tasks of a namespace may share a ServiceAccount, so its name does not say which job calls.  The pod in the
token does.
"""

from __future__ import annotations

from typing import Final

from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.decision import Facts, Unknown, User
from fournos.engine.runtime.fetch_facts import answered
from fournos.history.api.errors import ForbiddenError, UnavailableError
from fournos.systems.jobs.own_job import job_of_pod

AUDIENCE: Final = "history.fournos.dev"
"""The audience of a token that can do nothing else than send results and artifacts of its own job."""
_SECONDS: Final = 10.0
_ROUNDS: Final = 6


async def own_job(user: User, api: Api) -> Obj:
    """Returns the FournosJob of the calling pod.  Raises ForbiddenError and UnavailableError."""

    def decide(facts: Facts) -> Obj | str | Unknown:
        return job_of_pod(user, facts)

    found = await answered(decide, api, seconds=_SECONDS, rounds=_ROUNDS)
    if isinstance(found, Unknown):
        raise UnavailableError("the job of the calling pod cannot be looked up now", retry_after=2)
    if isinstance(found, str):
        raise ForbiddenError(f"only a pod of a FournosJob's run may send to its own job: {found}")
    return found
