"""All checks.  Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from fournos.engine.kube.errors import ForbiddenError, KubeError, NoSuchResourceError
from fournos.insight.doctor.clocks import check_clocks
from fournos.insight.doctor.crds import check_crds
from fournos.insight.doctor.facts import DoctorFacts, VaultHealth
from fournos.insight.doctor.finding import DoctorFinding, Level, unreadable
from fournos.insight.doctor.kueue import check_kueue
from fournos.insight.doctor.needs import check_rights
from fournos.insight.doctor.operators import check_operator
from fournos.insight.doctor.queues import check_queues
from fournos.insight.doctor.versions import check_versions
from fournos.insight.doctor.webhooks import check_webhooks

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
    """The receivers of messages about results; nothing of a history that does not say how it went."""
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
