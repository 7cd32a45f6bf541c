"""The objects that a MiniCluster makes, as pure functions of its spec and the settings.

Order of creation: certificate Secret, entrypoint ConfigMap, services pod, headless Service, Job, Services of
sidecars.  Everything but the headless Service has the MiniCluster as its controller; that one may serve
several MiniClusters and has all of them as owners.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fournos.api.minicluster import MiniClusterSpec
from fournos.kube.resource import Obj
from fournos.miniclusters.settings import MiniClusterSettings
from fournos.queueing.podsets import PodSetInfo
from fournos.queueing.workload import PodSet


def spec_of(minicluster: Obj) -> MiniClusterSpec:
    """The typed spec; fields that say null count as absent.  Raises pydantic's ValidationError."""
    raise NotImplementedError


def wanted(
    minicluster: Obj, settings: MiniClusterSettings, *, infos: Mapping[str, PodSetInfo] | None = None
) -> Sequence[Obj]:
    """All objects but the certificate and the headless Service, in order of creation.

    `infos` are what an admission gives the pod sets "main" (the Job's pods) and "services" (the services
    pod).  The Job is not suspended; make nothing while the MiniCluster is.  Raises PodSetInfoError where
    template and admission contradict each other.
    """
    raise NotImplementedError


def certificate_secret(minicluster: Obj, *, certificate: str) -> Obj:
    """The Secret with the CURVE certificate: `flux.curveCert`, or one of `curve.certificate(...)`.

    Make it once: a new certificate would lock out the brokers that have the old one.
    """
    raise NotImplementedError


def headless_service(minicluster: Obj, *, existing: Obj | None = None) -> Obj | str:
    """The headless Service as it should be, beside what other MiniClusters want of `existing`.

    Equal to `existing` when there is nothing to do.  A text says why the name cannot be used: somebody
    else's Service has it.
    """
    raise NotImplementedError


def pod_sets(minicluster: Obj, settings: MiniClusterSettings) -> tuple[PodSet, ...]:
    """What Kueue is asked quota for: "main" with as many pods as the largest size, "services" with one.

    A MiniCluster that is smaller than its largest size gives the rest back as reclaimable pods.
    """
    raise NotImplementedError


def index_label(pod: Obj) -> dict[str, Any] | None:
    """The merge patch that gives a pod of our Job its label `job-index`; None if it has it, or no index."""
    raise NotImplementedError
