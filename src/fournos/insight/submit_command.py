"""The command that submits a manifest.  Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

_NAMES = (("metadata", "name"), ("metadata", "generateName"), ("metadata", "namespace"))


def submit_command(manifest: Mapping[str, Any]) -> str:
    """Returns `fournos submit …` with one option for each field of the manifest."""
    meta = manifest.get("metadata") or {}
    parts = ["fournos", *(["-n", str(meta["namespace"])] if meta.get("namespace") else []), "submit"]
    if meta.get("name"):
        parts += ["--name", str(meta["name"])]
    elif meta.get("generateName"):
        parts += ["--generate-name", str(meta["generateName"])]
    for path, value in _leaves(manifest, ()):
        if path[0] in ("metadata", "spec") and path not in _NAMES:
            shown = path[1:] if path[0] == "spec" and path[1] not in ("metadata", "spec") else path
            parts += _option(".".join(map(_escaped, shown)), value)
    return shlex.join(parts)


def matrix_command(axes: Mapping[str, Any], namespace: str) -> str:
    """Returns `fournos matrix …` for the same combinations of a manifest in job.yaml."""
    parts = ["fournos", *(["-n", namespace] if namespace else []), "matrix", "-f", "job.yaml"]
    for path, values in axes.items():
        parts += ["--axis", f"{path}={json.dumps(values)[1:-1]}"]
    return shlex.join(parts)


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping) and value:
        for name, one in value.items():
            yield from _leaves(one, (*path, str(name)))
    else:
        yield path, value


def _escaped(part: str) -> str:
    return part.replace("\\", "\\\\").replace(".", "\\.")


def _option(path: str, value: Any) -> list[str]:
    if not isinstance(value, str):
        return ["--set", f"{path}={json.dumps(value)}"]
    try:
        plain = yaml.safe_load(value) == value
    except yaml.YAMLError:
        plain = False
    return ["--set" if plain else "--set-string", f"{path}={value}"]
