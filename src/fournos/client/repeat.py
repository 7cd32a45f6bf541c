"""Builds the manifest of a job that repeats another job.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fournos.api.fournosjob import FournosJobSpec
from fournos.client.submission import changed
from fournos.engine.api.crd import Model
from fournos.engine.kube.resource import Obj
from fournos.insight.errors import ManifestError
from fournos.insight.manifests import skeleton
from fournos.insight.values import name_of, spec_of
from fournos.systems.jobs.names import CONFIRMS_LABEL
from fournos.systems.schedules.names import SCHEDULE_UID_LABEL, TIME_LABEL

RETRY_OF_ANNOTATION: Final = "fournos.dev/retry-of"
NOT_REPEATED: Final = frozenset({"shutdown", "suspend", "managedBy"})
"""Fields that are not copied: shutdown and suspend stopped or held the earlier job, and the receiver of the
new job decides again where it runs."""
NOT_COPIED: Final = frozenset({CONFIRMS_LABEL, SCHEDULE_UID_LABEL, TIME_LABEL})
"""Labels that are not copied: a job that a person submits again confirms no regression and is no fire of a
schedule, and only the operator sets them."""
_NAME_ROOM: Final = 44
"""Characters kept of the earlier name; the hyphen and the API server's five-character suffix make 50."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """The origin of a job that repeats another job, whose name is `of`."""

    of: str
    taken_over: tuple[str, ...]
    """Copied fields of the spec, including hardware and secretRefs as the resolve phase set them."""
    changed: tuple[str, ...]
    """Paths of the requested changes."""
    found_anew: tuple[str, ...]
    """What is resolved when the job runs, and so may differ from the earlier run."""


def repeat(job: Obj, changes: Mapping[str, Any]) -> tuple[dict[str, Any], Repeat]:
    """Returns the manifest of a job with the same spec plus the changes.  Raises ManifestError."""
    meta, name = job["metadata"], name_of(job)
    spec = {field: value for field, value in spec_of(job).items() if field not in NOT_REPEATED}
    made = skeleton()
    made["metadata"] = {
        "generateName": f"{name[:_NAME_ROOM].rstrip('-.')}-",
        "namespace": meta["namespace"],
        "labels": {name: one for name, one in (meta.get("labels") or {}).items() if name not in NOT_COPIED},
        "annotations": {RETRY_OF_ANNOTATION: f"{name}/{meta['uid']}"},
    }
    made["spec"] = spec
    made = changed(made, changes)
    roots = {path.split(".")[0] for path in changes}
    taken = tuple(sorted(field for field in made["spec"] if field not in roots))
    return made, Repeat(name, taken, tuple(sorted(changes)), found_anew(made["spec"]))


def found_anew(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """What of a job with this spec is resolved when it runs."""
    resolved = ["the Pipeline and its images", "the content of the secrets"]
    resolved += ["the cluster"] if not spec.get("cluster") and not spec.get("clusterless") else []
    resolved += ["hardware"] if not spec.get("hardware") and not spec.get("lockOnly") else []
    resolved += ["secretRefs"] if not spec.get("secretRefs") else []
    return tuple(resolved)


def fields(
    changes: Mapping[str, Any], model: type[Model] = FournosJobSpec, noun: str = "job"
) -> dict[str, Any]:
    """Returns JSON field name → value for keyword arguments in Python or JSON names of fields of a spec.

    Raises ManifestError for an unknown field.
    """
    names = {name: field.alias or name for name, field in model.model_fields.items()}
    json_names = {**names, **{alias: alias for alias in names.values()}}
    if unknown := [name for name in changes if name not in json_names]:
        raise ManifestError(
            f"no field of a {noun}'s spec: {', '.join(unknown)}", fix=f"known are {', '.join(names)}"
        )
    return {json_names[name]: value for name, value in changes.items()}
