"""Validation rules of FournosClusters: CEL for the API server, and the same checks in Python.

Sources: the limits of what a cluster's name becomes (its lock is a FournosJob, whose name has at most 55
characters), and the format of durations in the Hearth README.
"""

from __future__ import annotations

from typing import Final

from fournos.engine.api.rules import Rule, plain_rule, text_rule
from fournos.systems.clusters.build import LOCK_PREFIX

MAX_JOB_NAME: Final = 55
MAX_NAME: Final = MAX_JOB_NAME - len(LOCK_PREFIX)

_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_TTL: Final = r"[0-9]{1,6}(m|h|d)"
_INTERVAL: Final = r"0{0,5}[1-9][0-9]{0,5}(m|h|d)"

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        id="name-length",
        at="",
        when="create",
        field="metadata.name",
        message=f"use a name of at most {MAX_NAME} characters: the lock of the cluster is a FournosJob named "
        f"{LOCK_PREFIX}<name>; a Secret's name gives it away, so shorten that",
        cel=f"self.metadata.name.size() <= {MAX_NAME}",
        holds=lambda new, _: len((new.get("metadata") or {}).get("name") or "") <= MAX_NAME,
    ),
    text_rule(
        "kubeconfigSecret",
        "write the name of a Secret in the secrets namespace: lower case letters, digits, '-' and '.'",
        pattern=_SUBDOMAIN,
        longest=253,
    ),
    plain_rule("owner"),
    text_rule(
        "ttl",
        "write a whole number and m, h or d, such as 30m, 12h or 7d, or leave it out",
        pattern=_TTL,
        longest=7,
        empty=True,
    ),
    text_rule(
        "gpuDiscoveryInterval",
        "write a whole number from 1 and m, h or d, such as 5m, or leave it out",
        pattern=_INTERVAL,
        longest=7,
        empty=True,
    ),
)
