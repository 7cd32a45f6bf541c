"""The command that submits a manifest.  Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from fournos.engine.kube.formats import YamlError, load_all

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
        if path[0] in ("metadata", "spec") and len(path) > 1 and path not in _NAMES:
            shown = path[1:] if path[0] == "spec" and path[1] not in ("metadata", "spec") else path
            parts += _option(".".join(map(_escaped, shown)), value)
    return shlex.join(parts)


def matrix_command(axes: Mapping[str, Any], namespace: str) -> str:
    """Returns `fournos matrix …` for the same combinations of a manifest in job.yaml."""
    parts = ["fournos", *(["-n", namespace] if namespace else []), "matrix", "-f", "job.yaml"]
    for path, values in axes.items():
        parts += ["--axis", f"{path}={json.dumps(values)[1:-1]}"]
    return shlex.join(parts)


def resubmit_command(name: str, namespace: str, changes: Mapping[str, Any]) -> str:
    """Returns `fournos resubmit …`; `changes` is path → value, None for a removed field."""
    parts = ["fournos", *(["-n", namespace] if namespace else []), "resubmit", name]
    for path, value in changes.items():
        parts += ["--set", f"{path}={_yaml(value)}"]
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
    if isinstance(value, str) and not _is_plain(value):
        return ["--set-string", f"{path}={value}"]
    return ["--set", f"{path}={_yaml(value)}"]


def _yaml(value: Any) -> str:
    """Returns the value as `--set` takes it; "" for None, which removes a field."""
    if value is None:
        return ""
    return value if isinstance(value, str) and _is_plain(value) else json.dumps(value)


def _is_plain(text: str) -> bool:
    """True if the text is a string in YAML as it is."""
    try:
        return load_all(text) == [text]
    except YamlError:
        return False
