"""All checks.  Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from fournos.engine.api.times import parse_time
from fournos.engine.kube.errors import ForbiddenError, KubeError, NoSuchResourceError, NotFoundError
from fournos.insight.doctor.crds import check_crds
from fournos.insight.doctor.facts import DoctorFacts, VaultHealth
from fournos.insight.doctor.finding import DoctorFinding, Level, unreadable
from fournos.insight.doctor.kueue import check_kueue
from fournos.insight.doctor.needs import check_rights
from fournos.insight.doctor.queues import check_queues
from fournos.insight.doctor.versions import check_versions
from fournos.insight.doctor.webhooks import check_webhooks
from fournos.insight.values import short, spec_of

_VAULT: Final = {
    0: ("it does not answer", "check VAULT_ADDR and the network"),
    501: ("it is not initialized", "initialize it: vault operator init"),
    503: ("it is sealed", "unseal it: vault operator unseal"),
}


def examine(facts: DoctorFacts, now: datetime) -> list[DoctorFinding]:
    """Returns the findings in the order in which faults are best mended."""
    place = facts.place
    return [
        *check_versions(facts),
        *check_crds(facts),
        *check_kueue(facts),
        *check_queues(facts),
        *check_rights(facts.rights, namespace=place.namespace, clusters=place.clusters),
        *check_webhooks(facts, now),
        check_operator(facts, facts.server_time if isinstance(facts.server_time, datetime) else now),
        *check_clocks(facts),
        *([check_history(facts.history)] if facts.history is not None else ()),
        *check_messages(facts.messages),
        *([check_vault(facts.vault)] if facts.vault else ()),
    ]


_MESSAGES: Final = (
    "see what it answers: "
    "kubectl -n fournos-history exec deploy/fournos-history -- fournos history webhook test"
)


def check_history(answer: bytes | KubeError) -> DoctorFinding:
    """The history, its API and its store in one: what they answered to a read of runs."""
    if isinstance(answer, NoSuchResourceError):
        return DoctorFinding("History", "API", Level.OK, "not installed")
    if isinstance(answer, ForbiddenError):
        return unreadable("History", "API", answer)
    if not isinstance(answer, KubeError):
        return DoctorFinding("History", "API", Level.OK, "it answers, and so does its store")
    fix = "see why: kubectl describe apiservice v1.history.fournos.dev, and the log of its Service's pods"
    return DoctorFinding("History", "API", Level.FAULT, answer.message, fix)


def check_messages(answer: bytes | KubeError | None) -> Iterator[DoctorFinding]:
    """Checks how many messages reached each receiver; nothing without an answer of the history."""
    if answer is None or isinstance(answer, KubeError):
        return
    for counts in json.loads(answer):
        sent, failed, where = counts["sent"], counts["failed"], f"messages to {counts['receiver']}"
        if not failed:
            yield DoctorFinding("History", where, Level.OK, f"{sent} sent in the last 7 days")
            continue
        text = f"{failed} of {sent + failed} in the last 7 days did not reach it"
        yield DoctorFinding("History", where, Level.WARNING if sent else Level.FAULT, text, _MESSAGES)


def check_vault(health: VaultHealth) -> DoctorFinding:
    """A standby (429, 472 and 473 of Vault's API) answers requests as the active node does."""
    problem = _VAULT.get(health.status)
    if problem:
        text, fix = problem
        return DoctorFinding("Vault", health.address, Level.FAULT, text, fix)
    if health.status in (200, 429, 472, 473):
        return DoctorFinding("Vault", health.address, Level.OK, "it answers")
    fix = "check VAULT_ADDR: the answer is not that of a Vault server"
    return DoctorFinding("Vault", health.address, Level.FAULT, f"it answered {health.status}", fix)


_CLOCKS: Final = "Clocks"
_NOTABLE: Final = timedelta(seconds=5)
_LARGE: Final = timedelta(minutes=1)
"""Tokens and certificates are valid from the second they are made: a larger difference gets them refused."""


def check_clocks(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Compares the local clock with the API server's, whose header has whole seconds."""
    what = "local clock"
    if isinstance(facts.server_time, KubeError):
        yield unreadable(_CLOCKS, what, facts.server_time)
        return
    if facts.server_time is None or facts.before is None or facts.after is None:
        yield DoctorFinding(_CLOCKS, what, Level.UNKNOWN, "the API server's answer has no date")
        return
    early = facts.before - (facts.server_time + timedelta(seconds=1))
    late = facts.server_time - facts.after
    off = max(early, late, timedelta())
    text = f"{short(off)} {'ahead of' if early > late else 'behind'} the API server's"
    fix = "synchronize this machine's clock (NTP), or the API server's"
    if off > _LARGE:
        yield DoctorFinding(
            _CLOCKS, what, Level.FAULT, f"{text}: tokens and certificates may be refused", fix
        )
    elif off > _NOTABLE:
        yield DoctorFinding(
            _CLOCKS, what, Level.WARNING, f"{text}: ages and durations are wrong by that", fix
        )
    else:
        yield DoctorFinding(_CLOCKS, what, Level.OK, f"within {short(_NOTABLE)} of the API server's")


_OPERATOR: Final = "Operator"
_LATE: Final = timedelta(minutes=1)
"""Several times what a Lease lasts: another replica would have taken it over."""


def check_operator(facts: DoctorFacts, now: datetime) -> DoctorFinding:
    """The Lease `fournos` lies in the namespace of the jobs, wherever the operator is deployed."""
    namespace, lease = facts.place.namespace, facts.lease
    what = f"jobs in {namespace}"
    fix = f"start it: kubectl -n {namespace} get pods, or fournos run -n {namespace}"
    if isinstance(lease, NotFoundError):
        return DoctorFinding(
            _OPERATOR, what, Level.FAULT, "no operator holds a Lease here: nothing is processed", fix
        )
    if lease is None or isinstance(lease, KubeError):
        return unreadable(_OPERATOR, what, lease or KubeError("it was not read"))
    spec = spec_of(lease)
    holder, renewed = str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or "")
    if not holder or not renewed:
        return DoctorFinding(_OPERATOR, what, Level.FAULT, "no operator serves it now", fix)
    ago = now - parse_time(renewed)
    if ago > _LATE:
        text = f"{holder} served it until {short(ago)} ago, and no operator has since"
        return DoctorFinding(_OPERATOR, what, Level.FAULT, text, fix)
    return DoctorFinding(_OPERATOR, what, Level.OK, f"{holder} serves it")
