"""The parts that `fournos run --enable` accepts, each declared in its own package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fournos.appwrappers.part import PART as APPWRAPPERS
from fournos.clusters.part import PART as CLUSTERS
from fournos.frameworks.part import PART as FRAMEWORKS
from fournos.history.part import PART as HISTORY
from fournos.jobs.part import PART as JOBS
from fournos.miniclusters.part import PART as MINICLUSTERS
from fournos.multikueue.part import PART as MULTIKUEUE
from fournos.runtime.part import Part
from fournos.web.part import PART as WEB

PARTS: Mapping[str, Part[Any]] = {
    part.name: part
    for part in (JOBS, CLUSTERS, APPWRAPPERS, FRAMEWORKS, MULTIKUEUE, MINICLUSTERS, HISTORY, WEB)
}
"""The parts by name, in the order in which messages and reference pages list them."""

KINDS = tuple(kind for part in PARTS.values() for kind in part.kinds)
"""Our CRDs: the models of `api`, each with the validation rules of its controller's package."""
