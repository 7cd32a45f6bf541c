"""The controller of this adapter's AdmissionChecks."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from fournos.kube.resource import Key, key_of
from fournos.multikueue.admissioncheck.decide import decide
from fournos.multikueue.admissioncheck.observe import Observed, observe, watches
from fournos.multikueue.settings import MultiKueueSettings
from fournos.multikueue.workers import Workers
from fournos.queueing.kinds import ADMISSION_CHECK
from fournos.runtime.controller import Caches, Controller

ADMISSION_CHECKS = "multikueue-checks"


def admission_checks(settings: MultiKueueSettings, workers: Workers) -> Controller[Observed]:
    """Returns the controller that reconciles this adapter's AdmissionChecks."""
    return Controller(
        name=ADMISSION_CHECKS,
        watches=watches(),
        observe=partial(observe, settings=settings, workers=workers),
        decide=decide,
        primary=lambda observed: observed.check,
        collect=_keys,
    )


def _keys(caches: Caches) -> Iterable[Key]:
    return tuple(key_of(check) for check in caches[ADMISSION_CHECK])
