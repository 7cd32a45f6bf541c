"""Our CRDs: the models of `api` combined with the validation rules of the controllers' packages."""

from __future__ import annotations

from fournos.api.appwrapper import DEFINITION as APPWRAPPER
from fournos.api.crd import Definition
from fournos.api.fournoscluster import DEFINITION as FOURNOS_CLUSTER
from fournos.api.fournosjob import DEFINITION as FOURNOS_JOB
from fournos.api.minicluster import DEFINITION as MINICLUSTER
from fournos.api.rules import Rule
from fournos.appwrappers.rules import RULES as APPWRAPPER_RULES
from fournos.clusters.rules import RULES as CLUSTER_RULES
from fournos.jobs.rules import RULES as JOB_RULES
from fournos.miniclusters.rules import RULES as MINICLUSTER_RULES

KINDS: tuple[tuple[Definition, tuple[Rule, ...]], ...] = (
    (FOURNOS_JOB, JOB_RULES),
    (FOURNOS_CLUSTER, CLUSTER_RULES),
    (APPWRAPPER, APPWRAPPER_RULES),
    (MINICLUSTER, MINICLUSTER_RULES),
)
