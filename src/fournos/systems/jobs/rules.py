"""Validation rules of a FournosJob: each row has one rule, as CEL for the API server and as Python.

Source of the rules in this module: the Fournos README, on fields that require or exclude one another.
"""

from __future__ import annotations

import re
from typing import Final

from fournos.api.fournosjob import DEFINITION
from fournos.engine.api.rules import Json, Rule, Violation, violations
from fournos.engine.api.schema_readers import schema_violations
from fournos.systems.jobs.names import OWN_PARAMS
from fournos.systems.jobs.rules_changes import CHANGES
from fournos.systems.jobs.rules_fields import FIELDS, GPU_TYPE, MAX_GPU_TYPE

_CLUSTER = "(has(self.cluster) && self.cluster != '')"
_LOCK_ONLY = "(has(self.lockOnly) && self.lockOnly)"
_CLUSTERLESS = "(has(self.clusterless) && self.clusterless)"
_EXCLUSIVE = "(!has(self.exclusive) || self.exclusive)"
# executionEngine and params have arbitrary content, so CEL has no type for them: hence dyn.  The rules are at
# the root, the only place where the API server can estimate the cost of dyn.
_ENGINE = "dyn(self.spec).executionEngine"
_PARAMS = "dyn(self.spec).params"


def _exclusive(spec: Json) -> bool:
    return spec.get("exclusive") is not False


def _is_complete(gpus: Json) -> bool:
    kind = str(gpus.get("gpuType") or "")
    named = len(kind) <= MAX_GPU_TYPE and bool(re.fullmatch(GPU_TYPE, kind))
    return named and gpus.get("gpuCount") is not None


COMBINATIONS: Final = (
    Rule(
        id="spec-missing",
        at="",
        field="spec",
        reason="FieldValueRequired",
        message="write a spec with at least an executionEngine, and with cluster or exclusive: false",
        cel="has(self.spec)",
        holds=lambda new, _: new.get("spec") is not None,
    ),
    Rule(
        id="engine-missing",
        at="",
        field="spec.executionEngine",
        reason="FieldValueRequired",
        message="name the execution engine and its configuration, such as "
        "executionEngine: {forge: {project: llmd}}; only a job with lockOnly: true goes without",
        cel="!has(self.spec) || (has(self.spec.lockOnly) && self.spec.lockOnly) || "
        f"(has({_ENGINE}) && {_ENGINE}.size() > 0)",
        holds=lambda new, _: (
            new.get("spec") is None or bool(new["spec"].get("lockOnly") or new["spec"].get("executionEngine"))
        ),
    ),
    Rule(
        id="engine-single",
        at="",
        field="spec.executionEngine",
        message="write exactly one key, the name of the engine, and put all its configuration below that key",
        cel=f"!has(self.spec) || !has({_ENGINE}) || {_ENGINE}.size() <= 1",
        holds=lambda new, _: len((new.get("spec") or {}).get("executionEngine") or {}) <= 1,
    ),
    Rule(
        id="params-own",
        at="",
        field="spec.params",
        reason="FieldValueForbidden",
        message=f"the operator passes {', '.join(OWN_PARAMS)} itself: remove them",
        cel=f"!has(self.spec) || !has({_PARAMS}) || !{_PARAMS}.exists(name, name in {list(OWN_PARAMS)})",
        holds=lambda new, _: not set(OWN_PARAMS) & set((new.get("spec") or {}).get("params") or {}),
    ),
    Rule(
        id="exclusive-cluster",
        field="spec.cluster",
        reason="FieldValueRequired",
        message="an exclusive job locks its cluster, and exclusive defaults to true: name the cluster, "
        "or write exclusive: false to run on any cluster that has room",
        cel=f"{_CLUSTER} || {_LOCK_ONLY} || {_CLUSTERLESS} || !{_EXCLUSIVE}",
        holds=lambda new, _: bool(
            new.get("cluster") or new.get("lockOnly") or new.get("clusterless") or not _exclusive(new)
        ),
    ),
    Rule(
        id="lock-cluster",
        field="spec.cluster",
        reason="FieldValueRequired",
        message="lockOnly: true needs the cluster to lock: write cluster: <name>",
        cel=f"!{_LOCK_ONLY} || {_CLUSTERLESS} || {_CLUSTER}",
        holds=lambda new, _: bool(not new.get("lockOnly") or new.get("clusterless") or new.get("cluster")),
    ),
    Rule(
        id="lock-exclusive",
        field="spec.exclusive",
        message="lockOnly: true always locks the whole cluster: leave exclusive out or write exclusive: true",
        cel=f"!{_LOCK_ONLY} || {_CLUSTERLESS} || {_EXCLUSIVE}",
        holds=lambda new, _: bool(not new.get("lockOnly") or new.get("clusterless") or _exclusive(new)),
    ),
    Rule(
        id="clusterless-lock",
        field="spec.clusterless",
        message="clusterless: true cannot go with lockOnly: true, which needs a cluster: remove one",
        cel=f"!{_CLUSTERLESS} || !{_LOCK_ONLY}",
        holds=lambda new, _: not (new.get("clusterless") and new.get("lockOnly")),
    ),
    Rule(
        id="clusterless-exclusive",
        field="spec.exclusive",
        message="a clusterless job locks no cluster, but exclusive defaults to true: write exclusive: false",
        cel=f"!{_CLUSTERLESS} || {_LOCK_ONLY} || !{_EXCLUSIVE}",
        holds=lambda new, _: bool(not new.get("clusterless") or new.get("lockOnly") or not _exclusive(new)),
    ),
    Rule(
        id="clusterless-cluster",
        field="spec.cluster",
        reason="FieldValueForbidden",
        message="clusterless: true runs without a cluster: remove cluster, or remove clusterless",
        cel=f"!{_CLUSTERLESS} || {_LOCK_ONLY} || !{_CLUSTER}",
        holds=lambda new, _: bool(
            not new.get("clusterless") or new.get("lockOnly") or not new.get("cluster")
        ),
    ),
    Rule(
        id="hardware-both",
        at="spec.hardware",
        field="spec.hardware",
        reason="FieldValueRequired",
        message="write both gpuType and gpuCount, such as hardware: {gpuType: a100, gpuCount: 2}, "
        "or leave hardware out for the execution engine to fill in",
        cel="has(self.gpuType) && self.gpuType != '' && has(self.gpuCount)",
        holds=lambda new, _: bool(new.get("gpuType")) and new.get("gpuCount") is not None,
    ),
    Rule(
        id="alternatives-complete",
        at="spec.hardware",
        field="spec.hardware.alternatives",
        message="write gpuType and gpuCount of each, such as alternatives: [{gpuType: a100, gpuCount: 4}]; "
        f"the type is lower case letters and digits, without a prefix, at most {MAX_GPU_TYPE} characters",
        cel="!has(self.alternatives) || self.alternatives.all(a, has(a.gpuCount) && has(a.gpuType) && "
        f"a.gpuType.size() <= {MAX_GPU_TYPE} && a.gpuType.matches('^{GPU_TYPE}$'))",
        holds=lambda new, _: all(map(_is_complete, new.get("alternatives") or ())),
    ),
)

RULES: Final[tuple[Rule, ...]] = (*COMBINATIONS, *FIELDS, *CHANGES)


def check(new: Json, old: Json | None = None) -> list[Violation]:
    """Returns the violations for which the API server refuses to create `new`, or to replace `old` by it.

    `check(stored)` finds the violations of an object that was stored before a rule existed.  The objects must
    match the schema, as stored objects do.
    """
    return violations(RULES, new, old)


def check_manifest(new: Json) -> list[Violation]:
    """As `check`, for a manifest that has not been validated yet: the schema is checked first."""
    return schema_violations(DEFINITION, new) or check(new)
