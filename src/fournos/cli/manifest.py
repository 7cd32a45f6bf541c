"""Manifests as people write them: read, changed by --set, named, checked.  Pure but for reading files."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from fournos.api.fournosjob import DEFAULT_PIPELINE
from fournos.api.rules import Violation
from fournos.cli.errors import Fail
from fournos.jobs.kinds import FOURNOS_JOB
from fournos.jobs.rules import check_manifest

_SUFFIX: Final = "x7k2m"
"""Stands for what the API server adds to a generateName."""
_ROOTS: Final = ("spec", "metadata")
_PART: Final = re.compile(r"(?:[^.\\]|\\.)+")


def read(path: str) -> str:
    """A file's text, or stdin's for "-".  Raises Fail."""
    if path == "-":
        return sys.stdin.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Fail(
            f"cannot read {path}: {error.strerror}", fix="name a file of yours, or - for standard input"
        ) from None
    except UnicodeDecodeError:
        raise Fail(f"{path} is no text in UTF-8", fix="name a YAML or JSON file") from None


def documents(text: str, source: str) -> list[dict[str, Any]]:
    """The objects of a YAML or JSON text; Lists are unpacked.  Raises Fail."""
    try:
        read_ = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        raise Fail(f"{source} is no YAML: {_yaml_problem(error)}", fix="correct the file") from None
    found: list[dict[str, Any]] = []
    for document in read_:
        if not isinstance(document, dict):
            raise Fail(f"{source} holds {document!r:.60}, which is no object", fix="write a manifest")
        if document.get("kind") == "List":
            found += [item for item in document.get("items") or () if isinstance(item, dict)]
        else:
            found.append(document)
    return found


def parse(text: str, source: str) -> list[dict[str, Any]]:
    """The FournosJobs of a YAML or JSON text; Lists are unpacked.  Raises Fail."""
    found = documents(text, source)
    for document in found:
        if document.get("kind") != FOURNOS_JOB.kind:
            raise Fail(
                f"{source} holds a {document.get('kind') or 'document without a kind'}, "
                "fournos submit takes FournosJobs",
                fix=f"write apiVersion: {FOURNOS_JOB.api_version} and kind: {FOURNOS_JOB.kind}; "
                "other kinds go in with kubectl apply",
            )
    if not found:
        raise Fail(f"{source} holds no FournosJob", fix="write one, or name another file")
    return found


def _yaml_problem(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or error).strip()
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else problem


def skeleton() -> dict[str, Any]:
    """What --set alone builds on."""
    return {"apiVersion": FOURNOS_JOB.api_version, "kind": FOURNOS_JOB.kind, "metadata": {}, "spec": {}}


def put(manifest: dict[str, Any], assignment: str, *, text: bool = False) -> None:
    """Carry out one `path=value`.

    A path starts at spec unless it says metadata; `\\.` is a dot within a name.  The value is YAML, so
    that 2, true and [a, b] mean what they look like; `text` keeps it as it is.  An empty value with
    YAML is null and takes the field away.  Raises Fail.
    """
    path, equals, value = assignment.partition("=")
    parts = [part.replace("\\.", ".").replace("\\\\", "\\") for part in _PART.findall(path.strip())]
    if not equals or not parts:
        raise Fail(
            f"--set {assignment!r:.80} is no path=value",
            fix="write it like --set hardware.gpuCount=4 or --set env.OCPCI_SUITE=regression",
        )
    if parts[0] not in _ROOTS:
        parts.insert(0, "spec")
    if len(parts) == 1:
        raise Fail(f"--set {path} names no field", fix=f"write the field too, like --set {path}.cluster=…")
    node = manifest
    for index, part in enumerate(parts[:-1]):
        inner = node.get(part)
        if inner is None:
            inner = node[part] = {}
        if not isinstance(inner, dict):
            at = ".".join(parts[: index + 1])
            raise Fail(f"--set {path}: {at} is no map", fix=f"set {at} itself")
        node = inner
    try:
        parsed = value if text else yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise Fail(
            f"--set {path}: the value is no YAML: {_yaml_problem(error)}", fix="use --set-string for a text"
        ) from None
    if parsed is None:
        node.pop(parts[-1], None)
    else:
        node[parts[-1]] = parsed


def rename(manifest: dict[str, Any], *, name: str | None, generate_name: str | None) -> None:
    """Give the name asked for; where nobody names the job, generate one from the pipeline's."""
    meta = manifest.setdefault("metadata", {})
    if name:
        meta.pop("generateName", None)
        meta["name"] = name
    elif generate_name:
        meta.pop("name", None)
        meta["generateName"] = generate_name if generate_name.endswith("-") else f"{generate_name}-"
    elif not meta.get("name") and not meta.get("generateName"):
        spec = manifest.get("spec")
        pipeline = spec.get("pipeline") if isinstance(spec, dict) else None
        meta["generateName"] = f"{pipeline or DEFAULT_PIPELINE}-"


def place(manifest: dict[str, Any], *, asked: str | None, otherwise: str) -> None:
    """Settle the namespace: -n, else the manifest's own, else the default.  Raises Fail if two differ."""
    meta = manifest["metadata"]
    own = meta.get("namespace")
    if asked and own and asked != own:
        raise Fail(
            f"the manifest says namespace {own}, the command line says {asked}",
            fix="remove metadata.namespace from the manifest, or leave -n out",
        )
    meta["namespace"] = asked or own or otherwise


def check(manifest: dict[str, Any]) -> list[Violation]:
    """What the API server would refuse, and misspelt fields, without a cluster."""
    candidate = copy.deepcopy(manifest)
    meta = candidate.get("metadata") or {}
    if not meta.get("name") and meta.get("generateName"):
        # A long generateName is cut by the API server to leave room for its suffix, but only at 63.
        meta["name"] = f"{meta['generateName']}{_SUFFIX}"
    return check_manifest(candidate)


def refused(manifest: dict[str, Any], found: Iterable[Violation], source: str) -> Fail:
    meta = manifest.get("metadata") or {}
    name = meta.get("name") or f"{meta.get('generateName')}…"
    lines = "".join(f"\n  {violation.field}: {violation.message}" for violation in found)
    return Fail(f"{name} ({source}) would be refused:{lines}", fix="correct these fields and submit again")
