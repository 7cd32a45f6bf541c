"""Builds the manifest of a schedule from a typed spec, a mapping or a file.  Pure, except for reading it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fournos.api.fournosschedule import FournosScheduleSpec
from fournos.client.repeat import fields
from fournos.client.submission import JobSpec, base_document, combinations
from fournos.insight.manifests import with_owner
from fournos.insight.schedule_manifests import schedule_manifest


def schedule(
    name: str,
    job: JobSpec,
    times: str | Sequence[str],
    time_zone: str,
    *,
    owner: str,
    matrix: Mapping[str, Sequence[Any]],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns the checked manifest of a schedule of a job.

    `options`: further fields of its spec, by their names in Python or JSON.  Raises FournosError and
    ManifestError.
    """
    combinations(matrix)  # refuses an axis without a list of values
    return schedule_manifest(
        name,
        with_owner(base_document(job), owner),
        [times] if isinstance(times, str) else times,
        time_zone,
        matrix=matrix,
        fields=fields(options, FournosScheduleSpec, "schedule"),
    )
