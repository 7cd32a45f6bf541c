"""The routes of estimates: when waiting jobs start and end, and whether a job would start now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from fournos.api.fournosjob import FournosJobSpec
from fournos.history.api.errors import InvalidError, NotFoundError, UnavailableError
from fournos.history.api.identity import Access
from fournos.history.api.routes import ApiCall, Route
from fournos.history.estimates.accuracy import Accuracy, accuracy
from fournos.history.estimates.estimator import Estimator, NotReadyError
from fournos.history.estimates.live import CannotEstimateError
from fournos.history.estimates.models import Estimates, NewJob
from fournos.history.estimates.simulate import WouldStart

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService

EVENTS: Final = ("start", "end")


async def list_estimates(service: HistoryService, call: ApiCall) -> Estimates:
    try:
        estimates = await _estimator(service).waiting(call.namespace)
    except NotReadyError as error:
        raise UnavailableError(str(error), retry_after=2) from error
    return Estimates(tuple(estimates), await _accuracy(service, call))


async def get_estimate(service: HistoryService, call: ApiCall) -> Estimates:
    asked = call.path["run"]
    try:
        estimate = await _estimator(service).one(call.namespace, asked)
    except NotReadyError as error:
        raise UnavailableError(str(error), retry_after=2) from error
    if estimate is None:
        raise NotFoundError(f"{asked} is in no queue: it has no estimate", name=asked)
    return Estimates((estimate,), await _accuracy(service, call))


async def would_start(service: HistoryService, call: ApiCall) -> WouldStart:
    job: NewJob = call.body
    try:
        spec = FournosJobSpec.model_validate(job.spec)
        return await _estimator(service).would_start(call.namespace, spec, job.queue)
    except ValidationError as error:
        problems = (f"spec.{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:20])
        raise InvalidError("; ".join(problems)) from None
    except CannotEstimateError as error:
        raise InvalidError(str(error)) from error
    except NotReadyError as error:
        raise UnavailableError(str(error), retry_after=2) from error


def _estimator(service: HistoryService) -> Estimator:
    if service.estimator is None:
        raise UnavailableError("this process does not read the queues", retry_after=5)
    return service.estimator


async def _accuracy(service: HistoryService, call: ApiCall) -> tuple[Accuracy, ...]:
    verdicts = await service.verdicts()
    made = await verdicts.predictions(call.scope.namespaces, cluster=call.scope.cluster)
    return tuple(found for event in EVENTS if (found := accuracy(event, made)) is not None)


_ALL: Final = "/namespaces/{namespace}/estimates"

ROUTES: Final = (
    Route("GET", _ALL, "listEstimates", Access("list", "estimates"), list_estimates, Estimates),
    Route("GET", _ALL + "/{run}", "getEstimate", Access("get", "estimates"), get_estimate, Estimates),
    Route("POST", _ALL, "wouldStart", Access("create", "estimates"), would_start, WouldStart, body=NewJob),
)
