"""Access control of Secrets by annotations on the Secret.

The annotations are read from the Secret at every copy.  A list holds allowed names, separated by commas. If a
Secret has several lists, each must allow the job.  A list that cannot be parsed allows no job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.selector import matcher
from fournos.systems.jobs.settings import SecretPolicy

NAMESPACES: Final = "fournos.dev/allowed-namespaces"
OWNERS: Final = "fournos.dev/allowed-owners"
LABELS: Final = "fournos.dev/allowed-labels"
"""The annotation key of a label selector that matches the labels of allowed jobs."""


@dataclass(frozen=True, slots=True)
class SecretConsumer:
    """A job that requests a Secret, and the policy for Secrets without a list.

    Instances are the predicate of a CopySecret step: it is called with the Secret's name and annotations.
    """

    policy: SecretPolicy
    namespace: str
    owner: str
    labels: tuple[tuple[str, str], ...]

    def __call__(self, name: str, annotations: Mapping[str, str]) -> str:
        """Returns why the Secret refuses the job, or "" if the job may use it."""
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


def secret_consumer(job: Obj, policy: SecretPolicy) -> SecretConsumer:
    """Returns the Asker for a FournosJob under this policy."""
    meta = job["metadata"]
    labels = tuple(sorted((meta.get("labels") or {}).items()))
    return SecretConsumer(policy, meta["namespace"], str((job.get("spec") or {}).get("owner") or ""), labels)
