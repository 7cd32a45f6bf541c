"""Builds the manifest of a submission from a typed spec, a mapping or a file.  Pure, except for files."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

from fournos.api.fournosjob import FournosJob, FournosJobSpec
from fournos.api.kinds import APPWRAPPER, MINICLUSTER
from fournos.client.errors import KeyConflict
from fournos.client.views import values_of
from fournos.engine.api.crd import Model
from fournos.engine.kube.resource import Obj, is_terminating
from fournos.insight.appwrappers import accepted as accepted_wrapper
from fournos.insight.appwrappers import wrapped
from fournos.insight.errors import ManifestError
from fournos.insight.manifests import (
    assign,
    check,
    documents,
    field_path,
    parse,
    refused,
    rename,
    skeleton,
    value_at,
    with_owner,
)
from fournos.insight.miniclusters import accepted as accepted_minicluster
from fournos.insight.values import name_of, spec_of
from fournos.systems.jobs.names import CONFIRMS_LABEL
from fournos.systems.jobs.rules_fields import MAX_NAME
from fournos.systems.schedules.names import SCHEDULE_UID_LABEL, TIME_LABEL

Manifest: TypeAlias = Mapping[str, Any] | str | Path
"""A manifest as a mapping, or the path of a file."""
JobSpec: TypeAlias = FournosJobSpec | FournosJob | Mapping[str, Any] | str | Path
"""A typed spec or job, a manifest or the spec alone as a mapping, or the path of a file with one manifest."""

KEY_ANNOTATION: Final = "fournos.dev/submit-key"
DIGEST_ANNOTATION: Final = "fournos.dev/submit-digest"
"""The digest of the spec as submitted.  The stored spec differs: the API server adds defaults to it, and the
resolver its results."""
MATRIX_LABEL: Final = "fournos.dev/matrix"
_DIGEST: Final = 10


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no text in UTF-8"
        raise ManifestError(f"cannot read {path}: {why}", fix="name a YAML or JSON file") from None


def manifest(what: JobSpec, *, owner: str, name: str | None, key: str | None) -> dict[str, Any]:
    """Returns the manifest, named and validated.  Raises ManifestError with every violation.

    With a `key` the name is derived from owner and key, and the key and the digest of the spec are recorded
    in annotations.
    """
    made = base_document(what)
    spec = with_owner(made, owner).get("spec")
    if key is not None:
        if name or (made.get("metadata") or {}).get("name"):
            raise ManifestError("a job with a key gets its name from it", fix="leave the name or the key out")
        name = _key_name(str(spec.get("owner") or "") if isinstance(spec, dict) else "", key)
        marks = {KEY_ANNOTATION: key, DIGEST_ANNOTATION: _digest(spec)}
        meta = made.setdefault("metadata", {})
        meta["annotations"] = {**(meta.get("annotations") or {}), **marks}
    rename(made, name=name, generate_name=None)
    if found := check(made):
        raise refused(made, found, "submit")
    return made


def base_document(what: JobSpec) -> dict[str, Any]:
    """Returns the manifest, not yet checked, as a copy that may be changed.

    Raises ManifestError for a file that cannot be read or holds several jobs.
    """
    if isinstance(what, str | Path):
        jobs = parse(_text(Path(what)), str(what))
        if len(jobs) > 1:
            raise ManifestError(f"{what} holds {len(jobs)} jobs", fix="submit them one by one")
        return jobs[0]
    if isinstance(what, FournosJobSpec):
        return {**skeleton(), "spec": values_of(what)}
    if isinstance(what, FournosJob):
        return {**skeleton(), "spec": values_of(what).get("spec") or {}}
    given = copy.deepcopy(dict(what))
    return given if {"kind", "apiVersion", "spec"} & given.keys() else {**skeleton(), "spec": given}


def _key_name(owner: str, key: str) -> str:
    """Returns the name of a job with a key: owner and key, shortened, and a digest of both.

    The digest is of the full texts, so that two keys with the same shortened text have different names.
    """
    digest = sha256(f"{owner}\0{key}".encode()).hexdigest()[:_DIGEST]
    words = re.sub(r"[^a-z0-9]+", "-", f"{owner}-{key}".lower()).strip("-")[: MAX_NAME - _DIGEST - 1]
    return f"{words.strip('-') or 'job'}-{digest}"


def _digest(spec: object) -> str:
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"), default=str)
    return sha256(text.encode()).hexdigest()[:32]


def same_submission(submitted: Obj, there: Obj) -> None:
    """Checks that the existing job `there` is the result of the same submission.  Raises KeyConflict."""
    mine = submitted["metadata"]["annotations"]
    other = there["metadata"].get("annotations") or {}
    name, key = name_of(there), mine[KEY_ANNOTATION]
    if other.get(KEY_ANNOTATION) != key:
        raise KeyConflict(
            f"a job {name} is there, which was not submitted with the key {key!r}",
            fix="choose another key, or delete that job",
        )
    if other.get(DIGEST_ANNOTATION) != mine[DIGEST_ANNOTATION]:
        old, new = spec_of(there), spec_of(submitted)
        fields = ", ".join(sorted(name for name in new if old.get(name) != new[name]))
        raise KeyConflict(
            f"the key {key!r} was used for {name}, with another spec"
            + (f" (differs now: {fields})" if fields else ""),
            fix="use a key of its own for each spec; it may name what varies",
        )
    if is_terminating(there):
        raise KeyConflict(
            f"{name}, the job of the key {key!r}, is being deleted", fix="try again when it is gone"
        )


def changed(given: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy with fields set by path, such as {"hardware.gpuCount": 4}; None removes a field.

    Raises ManifestError.
    """
    made = copy.deepcopy(dict(given))
    for path, value in changes.items():
        parts = field_path(path)
        if len(parts) < 2:
            raise ManifestError(f"{path!r} names no field", fix="write a path such as hardware.gpuCount")
        assign(made, parts, copy.deepcopy(value), asked=f"the change of {path}")
    return made


def combinations(axes: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Returns path → value for each combination, in the order of the axes.  Raises ManifestError."""
    for path, values in axes.items():
        if isinstance(values, str) or not values:
            raise ManifestError(
                f"the axis {path} has no list of values", fix=f'write {{"{path}": [..., ...]}}'
            )
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def axis(text: str, *, option: str = "") -> tuple[str, list[Any]]:
    """Returns path and values of `path=value,value`; the values are YAML.

    Raises ManifestError; `option` stands before the text in its message.
    """
    path, equals, values = text.partition("=")
    try:
        parsed = value_at(path, f"[{values}]")
    except ValueError:
        parsed = []
    if not equals or not path.strip() or not parsed:
        raise ManifestError(
            f"{option}{text!r:.80} is not path=value,value",
            fix=f"write it like {option}hardware.gpuCount=1,2,4",
        )
    return path.strip(), parsed


def _documents(what: Manifest | Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(what, str | Path):
        return documents(_text(Path(what)), str(what))
    return [copy.deepcopy(dict(one)) for one in ([what] if isinstance(what, Mapping) else what)]


def appwrapper(
    what: Manifest | Sequence[Mapping[str, Any]], *, name: str | None, queue: str | None
) -> dict[str, Any]:
    """Returns a checked AppWrapper: the given one, or one of the given resources.  Raises ManifestError."""
    resources = _documents(what)
    if not resources:
        raise ManifestError("there is no resource to wrap", fix="give at least one manifest")
    if [one.get("kind") for one in resources] != [APPWRAPPER.kind]:
        return wrapped(resources, name=name, namespace=None, queue=queue, option="name=")
    if name or queue:
        raise ManifestError(
            "an AppWrapper has its own name and queue", fix="write them into its metadata, or leave them out"
        )
    accepted_wrapper(resources[0])
    return resources[0]


def minicluster(what: Manifest) -> dict[str, Any]:
    """Returns a checked MiniCluster.  Raises ManifestError."""
    manifests = _documents(what)
    source = str(what) if isinstance(what, str | Path) else "the MiniCluster"
    if [one.get("kind") for one in manifests] != [MINICLUSTER.kind]:
        kinds = ", ".join(str(one.get("kind")) for one in manifests) or "nothing"
        raise ManifestError(f"{source} holds {kinds}", fix="give exactly one MiniCluster")
    accepted_minicluster(manifests[0], source)
    return manifests[0]


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
