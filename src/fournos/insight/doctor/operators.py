"""Check of the operator that serves the namespace of the jobs: does it hold its Lease?  Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from fournos.engine.api.times import parse_time
from fournos.engine.kube.errors import KubeError, NotFoundError
from fournos.insight.doctor.facts import DoctorFacts
from fournos.insight.doctor.finding import DoctorFinding, Level, unreadable
from fournos.insight.values import short, spec_of

AREA: Final = "Operator"
_LATE: Final = timedelta(minutes=1)
"""Several times what a Lease lasts: another replica would have taken it over."""


def check_operator(facts: DoctorFacts, now: datetime) -> DoctorFinding:
    """The Lease `fournos` lies in the namespace of the jobs, wherever the operator is deployed."""
    namespace, lease = facts.place.namespace, facts.lease
    what = f"jobs in {namespace}"
    fix = f"start it: kubectl -n {namespace} get pods, or fournos run -n {namespace}"
    if isinstance(lease, NotFoundError):
        return DoctorFinding(
            AREA, what, Level.FAULT, "no operator holds a Lease here: nothing is processed", fix
        )
    if lease is None or isinstance(lease, KubeError):
        return unreadable(AREA, what, lease or KubeError("it was not read"))
    spec = spec_of(lease)
    holder, renewed = str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or "")
    if not holder or not renewed:
        return DoctorFinding(AREA, what, Level.FAULT, "no operator serves it now", fix)
    ago = now - parse_time(renewed)
    if ago > _LATE:
        text = f"{holder} served it until {short(ago)} ago, and no operator has since"
        return DoctorFinding(AREA, what, Level.FAULT, text, fix)
    return DoctorFinding(AREA, what, Level.OK, f"{holder} serves it")
