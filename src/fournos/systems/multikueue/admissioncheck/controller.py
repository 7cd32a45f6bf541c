"""The controller of this adapter's AdmissionChecks."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from fournos.engine.kube.resource import Key, key_of
from fournos.engine.queueing.kinds import ADMISSION_CHECK
from fournos.engine.runtime.controller import Caches, Controller
from fournos.systems.multikueue.admissioncheck.decide import decide
from fournos.systems.multikueue.admissioncheck.observe import Observed, observe, watches
from fournos.systems.multikueue.remote_clients import RemoteClients
from fournos.systems.multikueue.settings import MultiKueueSettings

ADMISSION_CHECKS = "multikueue-checks"


def admission_checks(settings: MultiKueueSettings, workers: RemoteClients) -> Controller[Observed]:
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
