"""Which jobs may use a Secret: lists in its annotations, read from the Secret each time that it is copied.

A list names what it lets in, separated by commas; of several lists each must let the job in.  A list that
cannot be read lets nothing in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fournos.jobs.settings import SecretPolicy
from fournos.kube.resource import Obj
from fournos.runtime.selector import matcher

NAMESPACES: Final = "fournos.dev/allowed-namespaces"
OWNERS: Final = "fournos.dev/allowed-owners"
LABELS: Final = "fournos.dev/allowed-labels"
"""A label selector of jobs."""


@dataclass(frozen=True, slots=True)
class Asker:
    """A job that asks for a Secret, and what holds for Secrets without a list."""

    policy: SecretPolicy
    namespace: str
    owner: str
    labels: tuple[tuple[str, str], ...]

    def __call__(self, name: str, annotations: Mapping[str, str]) -> str:
        """Why the Secret of this name refuses the job; "" if it does not."""
        lists = {key: annotations[key] for key in (NAMESPACES, OWNERS, LABELS) if key in annotations}
        if not lists and self.policy == "listed":
            return (
                f"Secret '{name}' lets no job in: FOURNOS_SECRET_POLICY=listed asks for an annotation, "
                f"such as {NAMESPACES}: {self.namespace}"
            )
        for key, text in lists.items():
            if not self._is_in(key, text):
                return f"Secret '{name}' does not let this job in: its annotation {key} is '{text}'"
        return ""

    def _is_in(self, key: str, text: str) -> bool:
        if key == LABELS:
            try:
                return bool(text.strip()) and matcher(text)(dict(self.labels))
            except ValueError:
                return False
        wanted = self.namespace if key == NAMESPACES else self.owner
        return bool(wanted) and wanted in (one.strip() for one in text.split(","))


def asker(job: Obj, policy: SecretPolicy) -> Asker:
    meta = job["metadata"]
    labels = tuple(sorted((meta.get("labels") or {}).items()))
    return Asker(policy, meta["namespace"], str((job.get("spec") or {}).get("owner") or ""), labels)
