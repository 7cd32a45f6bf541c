"""The objects of the install files as templates of the Helm chart.  Pure.

A template is the object's own YAML with expressions in place of what values choose.  Each is written only if
one of the systems that have the object is enabled.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from dev.release_install import Document, identity

NAMESPACES: Final = {name: f"helmnamespace{name}" for name in ("operator", "jobs", "secrets")}
"""Value below `namespaces` → the name that stands for it in rendered objects.

Names of other objects contain it after a dash, so it has none of its own.
"""
KEPT: Final = {"helm.sh/resource-policy": "keep"}
"""The annotation of what outlives the release."""
_SWITCHES: Final = {
    "CustomResourceDefinition": ".Values.crds.enabled",
    "MutatingWebhookConfiguration": ".Values.webhooks.enabled",
    "ValidatingWebhookConfiguration": ".Values.webhooks.enabled",
    "NetworkPolicy": ".Values.networkPolicies.enabled",
    "Namespace": ".Values.namespaces.create",
}
"""Kind → the value that must be true, too."""
_WEBHOOK_SERVICE: Final = "FOURNOS_WEBHOOK_SERVICE"
_TOKEN: Final = re.compile(r"HELM(\d{4})X")


@dataclass
class _Expressions:
    """The expressions of a template, each with a token that stands for it while YAML is written."""

    texts: list[str] = field(default_factory=list)

    def token(self, text: str) -> str:
        self.texts.append(text)
        return f"HELM{len(self.texts) - 1:04}X"

    def inserted(self, text: str) -> str:
        """Returns the YAML with each token replaced by its expression."""
        return _TOKEN.sub(lambda match: self.texts[int(match[1])], text)


@dataclass(frozen=True)
class ChartObject:
    """An object of the chart, and the systems that have it, by their values."""

    document: Document
    systems: tuple[str, ...]

    @property
    def kind(self) -> str:
        return str(self.document["kind"])


def shared(systems: Mapping[str, Sequence[Document]]) -> list[ChartObject]:
    """Returns each object once, with the systems that have it.

    Raises ValueError if two systems define the same object differently.
    """
    documents: dict[tuple[str, str, str, str], Document] = {}
    owners: dict[tuple[str, str, str, str], list[str]] = {}
    for system, objects in systems.items():
        for document in objects:
            key = identity(document)
            known = documents.setdefault(key, copy.deepcopy(document))
            if known != document:
                if document["kind"] != "Namespace":
                    raise ValueError(f"two systems differ about {' '.join(filter(None, key))}")
                known["metadata"] = {**document["metadata"], **known["metadata"]}
            owners.setdefault(key, []).append(system)
    return [ChartObject(documents[key], tuple(systems)) for key, systems in owners.items()]


def template(item: ChartObject) -> str:
    """Returns the template of an object."""
    document, expressions = copy.deepcopy(item.document), _Expressions()
    if item.kind in ("Namespace", "CustomResourceDefinition"):
        document["metadata"].setdefault("annotations", {}).update(KEPT)
    if item.kind == "Deployment":
        _choose(document, item.systems[0], expressions)
    text = yaml.safe_dump(document, sort_keys=False, width=110, allow_unicode=True)
    text = text.replace("{{", "{{ `{{` }}")
    text = _with_blocks(text, expressions)
    for name, stands_for in NAMESPACES.items():
        text = text.replace(stands_for, f"{{{{ .Values.namespaces.{name} }}}}")
    return f"{{{{- if {_condition(item)} }}}}\n---\n{text}{{{{- end }}}}\n"


def templates(objects: Iterable[ChartObject]) -> dict[str, str]:
    """Returns file name → content: one file a system, and one for the CRDs."""
    files: dict[str, list[str]] = {}
    for item in objects:
        name = "crds" if item.kind == "CustomResourceDefinition" else item.systems[0]
        files.setdefault(f"{name}.yaml", []).append(template(item))
    return {name: "".join(parts) for name, parts in files.items()}


def _condition(item: ChartObject) -> str:
    enabled = [f".Values.{system}.enabled" for system in item.systems]
    parts = [enabled[0] if len(enabled) == 1 else f"(or {' '.join(enabled)})"]
    if switch := _SWITCHES.get(item.kind):
        parts.append(switch)
    if item.kind == "Namespace":
        name = item.document["metadata"]["name"]
        chosen = next((key for key, stands_for in NAMESPACES.items() if stands_for == name), "")
        other = f".Values.namespaces.{chosen}" if chosen else f'"{name}"'
        parts.append(f"(ne .Release.Namespace {other})")
    return parts[0] if len(parts) == 1 else f"and {' '.join(parts)}"


def _choose(deployment: Document, system: str, expressions: _Expressions) -> None:
    """Puts expressions for the values of a system into its Deployment."""
    values = f".Values.{system}"
    spec = deployment["spec"]
    spec["replicas"] = expressions.token(f"{{{{ {values}.replicas }}}}")
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    container["image"] = expressions.token('{{ include "fournos.image" . }}')
    container["imagePullPolicy"] = expressions.token("{{ .Values.image.pullPolicy }}")
    container["resources"] = expressions.token(f"block:{values}.resources")
    container["env"] = [
        {"name": expressions.token(f"variable:{system}:{entry['name']}"), **_without_name(entry)}
        for entry in container.get("env") or ()
    ]
    if system == "jobs":
        container["env"].append(expressions.token("history:"))
    container["env"].append(expressions.token(f"settings:{system}"))
    for name in ("nodeSelector", "tolerations", "affinity"):
        pod[name] = expressions.token(f"optional:{values}.{name}")
    pod["imagePullSecrets"] = expressions.token("optional:.Values.image.pullSecrets")


def _without_name(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "name"}


def _with_blocks(text: str, expressions: _Expressions) -> str:
    """Replaces the tokens: by expressions within lines, or by what stands for whole lines."""
    lines, done = text.splitlines(), list[str]()
    while lines:
        line = lines.pop(0)
        match = _TOKEN.search(line)
        word, _, rest = (expressions.texts[int(match[1])] if match else "").partition(":")
        write = _BLOCKS.get(word)
        done += write(line, rest, lines) if write else [expressions.inserted(line)]
    return "\n".join(done) + "\n"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _key(line: str) -> str:
    """Returns a line without its value."""
    return f"{line.partition(':')[0]}:"


def _block(line: str, value: str, _: list[str]) -> list[str]:
    """The value as YAML below its key."""
    inner = _indent(line) + 2
    return [_key(line), f"{' ' * inner}{{{{- toYaml {value} | nindent {inner} }}}}"]


def _optional(line: str, value: str, _: list[str]) -> list[str]:
    """The same, without the key where the value is empty."""
    pad, inner = " " * _indent(line), _indent(line) + 2
    below = f"{' ' * inner}{{{{- toYaml . | nindent {inner} }}}}"
    return [f"{pad}{{{{- with {value} }}}}", _key(line), below, f"{pad}{{{{- end }}}}"]


def _variable(line: str, what: str, following: list[str]) -> list[str]:
    """A variable of the container, unless the settings have it."""
    system, _, name = what.partition(":")
    pad = " " * _indent(line)
    test = f'not (hasKey .Values.{system}.settings "{name}")'
    if name == _WEBHOOK_SERVICE:
        test = f"and .Values.webhooks.enabled ({test})"
    value = []
    while following and _indent(following[0]) > _indent(line):
        value.append(following.pop(0))
    return [f"{pad}{{{{- if {test} }}}}", f"{pad}- name: {name}", *value, f"{pad}{{{{- end }}}}"]


def _history(line: str, _: str, __: list[str]) -> list[str]:
    """With a history, jobs are deleted when it has their ends."""
    pad, name = " " * _indent(line), "FOURNOS_HISTORY_ENABLED"
    test = f'and .Values.history.enabled (not (hasKey .Values.jobs.settings "{name}"))'
    return [
        f"{pad}{{{{- if {test} }}}}",
        f"{pad}- name: {name}",
        f'{pad}  value: "true"',
        f"{pad}{{{{- end }}}}",
    ]


def _settings(line: str, system: str, _: list[str]) -> list[str]:
    """The settings of a system as variables."""
    pad, indent = " " * _indent(line), _indent(line)
    inner = f'{pad}  {{{{- include "fournos.settings" . | nindent {indent} }}}}'
    return [f"{pad}{{{{- with .Values.{system}.settings }}}}", inner, f"{pad}{{{{- end }}}}"]


_BLOCKS: Final[Mapping[str, Callable[[str, str, list[str]], list[str]]]] = {
    "block": _block,
    "optional": _optional,
    "variable": _variable,
    "history": _history,
    "settings": _settings,
}
"""The first word of an expression that stands for lines → what writes them from its line, the rest of the
expression and the lines that follow."""
