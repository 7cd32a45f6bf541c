"""Rules on the syntax of each field of a FournosJob.

Sources: the limits of the objects that the fields become (labels of 63 characters, resource names, names of
Kueue's and Tekton's objects), and Tekton's rule that a pipeline's timeout covers its tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from fournos.engine.api.rules import Json, Rule, full_match, plain_rule, text_rule
from fournos.engine.api.values import parse_duration
from fournos.engine.queueing.job import LOCK_HELD_CLASS
from fournos.systems.jobs.names import MAX_NAME as MAX_NAME

MAX_LABEL: Final = 63
MAX_GPU_TYPE: Final = 59
"""The maximum length of a GPU type: 63 characters after the slash of a resource name, less four of `gpu-`."""
MAX_DISPLAY_NAME: Final = 253
MAX_SECRET_NAME: Final = 253

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
GPU_TYPE = r"[a-z0-9]+"
_ENV_NAME = r"[-._a-zA-Z][-._a-zA-Z0-9]*"
_MANAGER = _SUBDOMAIN + r"/[-._~!$&()*+,;=:@%/a-zA-Z0-9]+"
_TTL = r"[0-9]{1,6}(m|h|d)"
_DURATION = "".join(rf"([0-9]{{1,6}}([.][0-9]{{1,3}})?{unit})?" for unit in ("h", "m", "s", "ms"))
"""A duration as Go prints it, with each unit at most once, which limits the sum.

Also matches the empty text.
"""


def _name_length(metadata: Json) -> int:
    """Returns the length of the name, also of a generated one.

    The API server truncates a generateName to 58 characters and adds five.
    """
    if metadata.get("name"):
        return len(metadata["name"])
    return min(len(metadata["generateName"]), 58) + 5 if metadata.get("generateName") else 0


def _distinct(refs: Sequence[str]) -> bool:
    return len(set(refs)) == len(refs) and not any(f"vault-{ref}" in refs for ref in refs)


_TEXTS: Final = (
    Rule(
        id="name-length",
        at="",
        when="create",
        field="metadata.name",
        message=f"use a name of at most {MAX_NAME} characters (a generateName of at most {MAX_NAME - 5}): "
        f"name and suffix become labels of at most {MAX_LABEL}; long names fit into spec.displayName",
        cel=f"self.metadata.name.size() <= {MAX_NAME}",
        holds=lambda new, _: _name_length(new.get("metadata") or {}) <= MAX_NAME,
    ),
    text_rule(
        "gpuType",
        "write the short name in lower case letters and digits, such as a100 or h200, without a prefix, "
        f"at most {MAX_GPU_TYPE} characters",
        at="spec.hardware",
        pattern=GPU_TYPE,
        longest=MAX_GPU_TYPE,
        empty=True,
    ),
    text_rule(
        "cluster",
        "write the name of a ResourceFlavor: lower case letters, digits, '-' and '.', "
        f"at most {MAX_LABEL} characters, because it becomes a label",
        pattern=_SUBDOMAIN,
        longest=MAX_LABEL,
        empty=True,
    ),
    text_rule(
        "pipeline",
        "write the name of a Tekton Pipeline: lower case letters, digits, '-' and '.', "
        f"at most {MAX_LABEL} characters, because it becomes a label; leave it out for fournos-full",
        pattern=_SUBDOMAIN,
        longest=MAX_LABEL,
    ),
    text_rule(
        "priority",
        "write the name of a WorkloadPriorityClass: lower case letters, digits, '-' and '.', "
        "at most 253 characters",
        pattern=_SUBDOMAIN,
        longest=253,
        empty=True,
    ),
    Rule(
        id="priority-reserved",
        field="spec.priority",
        message=f"{LOCK_HELD_CLASS} is for locks of clusters only: name another WorkloadPriorityClass, or "
        "lock the cluster with spec.owner of its FournosCluster",
        cel=f"!has(self.priority) || self.priority != '{LOCK_HELD_CLASS}'",
        holds=lambda new, _: new.get("priority") != LOCK_HELD_CLASS,
    ),
    text_rule(
        "managedBy",
        "write a domain and a path of at most 63 characters, such as kueue.x-k8s.io/multikueue, "
        "or leave it out",
        pattern=_MANAGER,
        longest=63,
    ),
    text_rule("ttl", "write a whole number and m, h or d, such as 30m, 12h or 7d", pattern=_TTL, longest=7),
    Rule(
        id="displayname-length",
        field="spec.displayName",
        message=f"shorten the display name to at most {MAX_DISPLAY_NAME} characters",
        cel=f"!has(self.displayName) || self.displayName.size() <= {MAX_DISPLAY_NAME}",
        holds=lambda new, _: len(new.get("displayName") or "") <= MAX_DISPLAY_NAME,
    ),
    plain_rule("owner"),
    plain_rule("displayName"),
    Rule(
        id="secretrefs-text",
        field="spec.secretRefs",
        message="write Vault entries as Secrets can be named: lower case letters, digits, '-' and '.', "
        f"beginning and ending with a letter or digit, at most {MAX_SECRET_NAME} characters each, "
        "such as my-creds or vault-my-creds",
        cel=f"!has(self.secretRefs) || self.secretRefs.all(r, r.size() <= {MAX_SECRET_NAME} && "
        f"r.matches('^{_SUBDOMAIN}$'))",
        holds=lambda new, _: all(
            len(ref) <= MAX_SECRET_NAME and full_match(_SUBDOMAIN, ref) for ref in new.get("secretRefs") or ()
        ),
    ),
    Rule(
        id="secretrefs-twice",
        field="spec.secretRefs",
        message="name every secret once: remove the repetition; my-creds and vault-my-creds are the same",
        cel="!has(self.secretRefs) || self.secretRefs.all(r, "
        "self.secretRefs.exists_one(x, x == r) && !(('vault-' + r) in self.secretRefs))",
        holds=lambda new, _: _distinct(new.get("secretRefs") or ()),
    ),
    Rule(
        id="secretrefs-kubeconfig",
        field="spec.secretRefs",
        message="kubeconfig is the name of the copy of the cluster's kubeconfig: "
        "write vault-kubeconfig for the Vault entry of that name",
        cel="!has(self.secretRefs) || !('kubeconfig' in self.secretRefs)",
        holds=lambda new, _: "kubeconfig" not in (new.get("secretRefs") or ()),
    ),
    Rule(
        id="env-names",
        field="spec.env",
        message="write names of letters, digits, '_', '-' and '.' that do not begin with a digit",
        cel=f"!has(self.env) || self.env.all(name, name.matches('^{_ENV_NAME}$'))",
        holds=lambda new, _: all(full_match(_ENV_NAME, name) for name in new.get("env") or {}),
    ),
)


def _length(text: str) -> timedelta | None:
    """Returns the duration, or None if the text is not a valid one."""
    return parse_duration(text) if text and full_match(_DURATION, text) else None


def _duration_rule(group: str, name: str, example: str) -> Rule:
    field = f"self.{name}"
    return Rule(
        id=f"{group}-{name}",
        at=f"spec.{group}",
        field=f"spec.{group}.{name}",
        message=f"write a positive duration in h, m and s, such as {example}, or leave it out",
        cel=f"!has({field}) || ({field} != '' && {field}.matches('^{_DURATION}$') && "
        f"duration({field}) > duration('0s'))",
        holds=lambda new, _: new.get(name) is None or bool(_length(new[name])),
    )


def _timeouts_fit(new: Json, _: Json) -> bool:
    texts = [new.get(name) for name in ("pipeline", "tasks", "finally")]
    lengths = [None if text is None else _length(text) for text in texts]
    if any(text is not None and length is None for text, length in zip(texts, lengths, strict=True)):
        return True  # covered by the rules of the single fields
    pipeline, tasks, final = lengths
    if pipeline is None or (tasks is None and final is None):
        return True
    if tasks is None or final is None:  # the timeout that is absent needs a share as well
        return (tasks or final or timedelta(0)) < pipeline
    return tasks + final <= pipeline


def _timeouts_fit_cel() -> str:
    names = ("pipeline", "tasks", "finally")
    malformed = " || ".join(
        f"(has(self.{n}) && (self.{n} == '' || !self.{n}.matches('^{_DURATION}$')))" for n in names
    )
    tasks, final = (f"(has(self.{n}) ? duration(self.{n}) : duration('0s'))" for n in names[1:])
    whole = "duration(self.pipeline)"
    return (
        f"!has(self.pipeline) || (!has(self.tasks) && !has(self.finally)) || {malformed} || "
        f"(has(self.tasks) && has(self.finally) ? {tasks} + {final} <= {whole} : {tasks} + {final} < {whole})"
    )


_DURATIONS: Final = (
    _duration_rule("timeouts", "pipeline", "25h0m0s"),
    _duration_rule("timeouts", "tasks", "24h0m0s"),
    _duration_rule("timeouts", "finally", "1h0m0s"),
    _duration_rule("timeouts", "pending", "1h30m"),
    _duration_rule("retry", "backoff", "30s"),
    Rule(
        id="timeouts-fit",
        at="spec.timeouts",
        field="spec.timeouts.pipeline",
        message="give the pipeline the time of tasks and finally together, and some for the one that is "
        "absent: raise pipeline, or leave it out",
        cel=_timeouts_fit_cel(),
        holds=_timeouts_fit,
    ),
)

FIELDS: Final[tuple[Rule, ...]] = (*_TEXTS, *_DURATIONS)
