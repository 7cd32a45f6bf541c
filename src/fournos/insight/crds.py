"""The CRDs of this version: the models of `api`, each with the validation rules of its system."""

from __future__ import annotations

from typing import Final

from fournos.api.appwrapper import DEFINITION as APPWRAPPER
from fournos.api.fournoscluster import DEFINITION as FOURNOS_CLUSTER
from fournos.api.fournosjob import DEFINITION as FOURNOS_JOB
from fournos.api.fournosschedule import DEFINITION as FOURNOS_SCHEDULE
from fournos.api.minicluster import DEFINITION as MINICLUSTER
from fournos.systems.appwrappers.rules import RULES as APPWRAPPER_RULES
from fournos.systems.clusters.rules import RULES as CLUSTER_RULES
from fournos.systems.jobs.rules import RULES as JOB_RULES
from fournos.systems.miniclusters.rules import RULES as MINICLUSTER_RULES
from fournos.systems.schedules.rules import RULES as SCHEDULE_RULES

# The same as the parts declare, without their controllers.
KINDS: Final = (
    (FOURNOS_JOB, JOB_RULES),
    (FOURNOS_SCHEDULE, SCHEDULE_RULES),
    (FOURNOS_CLUSTER, CLUSTER_RULES),
    (APPWRAPPER, APPWRAPPER_RULES),
    (MINICLUSTER, MINICLUSTER_RULES),
)
