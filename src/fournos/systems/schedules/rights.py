"""What the shipped account may do for schedules, and which feature needs it.

Schedules run in the operator of the jobs, so that its account has these rights beside those of `jobs`.
"""

from __future__ import annotations

from typing import Final

from fournos.engine.runtime.rights import CLUSTER, METRICS, OWN, Right, Rights, lease

OPERATOR_NAMESPACE: Final = "fournos-operator"
_CONFIGURATIONS: Final = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
OPERATOR: Final = Rights(
    "fournos",
    (
        Right(OWN, "get list watch patch", "fournosschedules.fournos.dev", "schedules; patch: spec.suspend"),
        Right(OWN, "patch", "fournosschedules/status.fournos.dev", "their status"),
        Right(
            OWN,
            "get list watch create patch delete",
            "fournosjobs.fournos.dev",
            "jobs of schedules; patch: Replace stops them; delete: spec.historyLimits",
        ),
        Right(OWN, "get", "pipelines.tekton.dev", "skipUnchanged: ImageDigests"),
        Right(
            OWN,
            "list",
            "tasks.tekton.dev imagestreams.image.openshift.io",
            "skipUnchanged: ImageDigests",
        ),
        Right(OWN, "create patch", "events.events.k8s.io", "events"),
        *lease(OWN, "fournos-schedules", "get patch"),
        *METRICS,
        Right(CLUSTER, "list watch", _CONFIGURATIONS, "the webhook author: its configuration is watched"),
        Right(
            CLUSTER,
            "get patch",
            f"{_CONFIGURATIONS}=fournos-schedules-fournos",
            "the webhook author: its certificate's authority",
        ),
    ),
)
RIGHTS: Final = (OPERATOR,)
