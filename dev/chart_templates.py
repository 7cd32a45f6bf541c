"""The objects of the install files as templates of the Helm chart.  Pure.

A template is the object's own YAML with expressions in place of what values choose.  Each is written only if
one of the systems that have the object is enabled, in a variant that has it.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from dev.release_install import Document

NAMESPACES: Final = {name: f"helmnamespace{name}" for name in ("operator", "jobs", "secrets")}
"""Value below `namespaces` → the name that stands for it in rendered objects.

Names of other objects contain it after a dash, so it has none of its own.
"""
KEPT: Final = {"helm.sh/resource-policy": "keep"}
"""The annotation of what outlives the release."""
KEPT_KINDS: Final = frozenset({"Namespace", "CustomResourceDefinition", "PersistentVolumeClaim"})
_PLACEHOLDERS: Final = {
    **{text: f"namespaces.{name}" for name, text in NAMESPACES.items()},
    "fournos-history-database": "history.database.secret",
    "fournos-history-s3": "history.s3.secret",
}
"""Text of the manifests, which others change by hand, → the value in place of it."""
_SWITCHES: Final = {
    "MutatingWebhookConfiguration": ".Values.webhooks.enabled",
    "ValidatingWebhookConfiguration": ".Values.webhooks.enabled",
    "NetworkPolicy": ".Values.networkPolicies.enabled",
    "Namespace": ".Values.namespaces.create",
}
"""Kind → the value that must be true, too."""
_IMPLIED: Final[Mapping[str, Mapping[str, str]]] = {
    # With a history, jobs are deleted when it has their ends.
    ".Values.jobs": {"FOURNOS_HISTORY_ENABLED": "true"},
    ".Values.web": {"FOURNOS_WEB_PROXY_SECRET_FILE": "/etc/fournos-proxy/secret"},
}
"""Values of a system → variables that other values set."""
_VARIABLES_IF: Final = {
    "FOURNOS_WEBHOOK_SERVICE": ".Values.webhooks.enabled",
    "FOURNOS_HISTORY_ENABLED": ".Values.history.enabled",
    "FOURNOS_WEB_PROXY_SECRET_FILE": ".Values.web.impersonation.enabled",
}
"""Variable → the value that must be true, too."""
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
    when: str = ""
    """A condition more, as an expression."""

    @property
    def kind(self) -> str:
        return str(self.document["kind"])


def in_variants(system: str, variants: Mapping[str, Iterable[Document]]) -> list[ChartObject]:
    """Returns each form of each object once, with a condition where not all variants have that form.

    The template `fournos.SYSTEM` says which variant the values choose.
    """
    forms: dict[str, tuple[Document, list[str]]] = {}
    for name, documents in variants.items():
        for document in documents:
            forms.setdefault(json.dumps(document, sort_keys=True), (document, []))[1].append(name)
    return [
        ChartObject(document, (system,), "" if len(names) == len(variants) else _chosen(system, names))
        for document, names in forms.values()
    ]


def _chosen(system: str, variants: Iterable[str]) -> str:
    return f'(has (include "fournos.{system}" .) (list {" ".join(json.dumps(name) for name in variants)}))'


def template(item: ChartObject) -> str:
    """Returns the template of an object."""
    document, expressions = copy.deepcopy(item.document), _Expressions()
    if item.kind in KEPT_KINDS:
        document["metadata"].setdefault("annotations", {}).update(KEPT)
    if choose := _CHOICES.get(item.kind) or _CHOICES.get(f"{item.kind} {document['metadata']['name']}"):
        choose(document, f".Values.{item.systems[0]}", expressions)
    text = yaml.safe_dump(document, sort_keys=False, width=110, allow_unicode=True)
    text = text.replace("{{", "{{ `{{` }}")
    text = _with_blocks(text, expressions)
    for placeholder, value in _PLACEHOLDERS.items():
        text = text.replace(placeholder, f"{{{{ .Values.{value} }}}}")
    return f"{{{{- if {_condition(item)} }}}}\n---\n{text}{{{{- end }}}}\n"


def templates(objects: Iterable[ChartObject]) -> dict[str, str]:
    """Returns file name → content: one file a system.  The CRDs have a template that reads their files."""
    files: dict[str, list[str]] = {}
    for item in objects:
        if item.kind != "CustomResourceDefinition":
            files.setdefault(f"{item.systems[0]}.yaml", []).append(template(item))
    return {name: "".join(parts) for name, parts in files.items()}


def _condition(item: ChartObject) -> str:
    enabled = [f".Values.{system}.enabled" for system in item.systems]
    parts = [enabled[0] if len(enabled) == 1 else f"(or {' '.join(enabled)})"]
    parts += filter(None, (_SWITCHES.get(item.kind), item.when))
    if item.kind == "Namespace":
        name = item.document["metadata"]["name"]
        chosen = next((key for key, stands_for in NAMESPACES.items() if stands_for == name), "")
        other = f".Values.namespaces.{chosen}" if chosen else f'"{name}"'
        parts.append(f"(ne .Release.Namespace {other})")
    return parts[0] if len(parts) == 1 else f"and {' '.join(parts)}"


def _choose_pods(deployment: Document, values: str, expressions: _Expressions) -> None:
    spec = deployment["spec"]
    spec["replicas"] = expressions.token(f"{{{{ {values}.replicas }}}}")
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    container["image"] = expressions.token('{{ include "fournos.image" . }}')
    container["imagePullPolicy"] = expressions.token("{{ .Values.image.pullPolicy }}")
    container["resources"] = expressions.token(f"block:{values}.resources")
    implied = [{"name": name, "value": value} for name, value in _IMPLIED.get(values, {}).items()]
    container["env"] = [
        {"name": expressions.token(f"variable:{values}:{entry['name']}"), **_without_name(entry)}
        for entry in (*container.get("env", ()), *implied)
    ]
    container["env"].append(expressions.token(f"settings:{values}.settings"))
    if "fsGroup" in pod["securityContext"]:
        pod["securityContext"]["fsGroup"] = expressions.token(f"optional:{values}.fsGroup")
    for name in ("nodeSelector", "tolerations", "affinity"):
        pod[name] = expressions.token(f"optional:{values}.{name}")
    pod["imagePullSecrets"] = expressions.token("optional:.Values.image.pullSecrets")


def _choose_volume(claim: Document, values: str, expressions: _Expressions) -> None:
    spec = claim["spec"]
    spec["resources"]["requests"]["storage"] = expressions.token(f"{{{{ {values}.storage.size }}}}")
    spec["storageClassName"] = expressions.token(f"optional:{values}.storage.className")


def _choose_groups(role: Document, values: str, expressions: _Expressions) -> None:
    (rule,) = (rule for rule in role["rules"] if rule["resources"] == ["groups"])
    rule["resourceNames"] = expressions.token(f"block:{values}.impersonation.groups")


def _choose_configuration(config_map: Document, values: str, expressions: _Expressions) -> None:
    """Takes the section multiKueue of each file from the values, and the rest from the manifest, as JSON."""
    for name, text in config_map["data"].items():
        fields = yaml.safe_load(text).items()
        rest = " ".join(f'"{key}" "{value}"' for key, value in fields if key != "multiKueue")
        file = f'dict {rest} "multiKueue" {values}.configuration | toJson | quote'
        config_map["data"][name] = expressions.token(f"{{{{ {file} }}}}")


_CHOICES: Final[Mapping[str, Callable[[Document, str, _Expressions], None]]] = {
    "Deployment": _choose_pods,
    "PersistentVolumeClaim": _choose_volume,
    "ClusterRole fournos-web-impersonator": _choose_groups,
    "ConfigMap fournos-multikueue": _choose_configuration,
}
"""Kind, or kind and name → what puts expressions for the values of its system into an object."""


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
    values, _, name = what.partition(":")
    pad = " " * _indent(line)
    test = f'not (hasKey {values}.settings "{name}")'
    if condition := _VARIABLES_IF.get(name):
        test = f"and {condition} ({test})"
    return [
        f"{pad}{{{{- if {test} }}}}",
        f"{pad}- name: {name}",
        *_deeper(line, following),
        f"{pad}{{{{- end }}}}",
    ]


def _deeper(line: str, following: list[str]) -> list[str]:
    """Takes the lines that belong to this one."""
    lines = []
    while following and _indent(following[0]) > _indent(line):
        lines.append(following.pop(0))
    return lines


def _settings(line: str, values: str, _: list[str]) -> list[str]:
    """The settings of a system as variables."""
    pad, indent = " " * _indent(line), _indent(line)
    inner = f'{pad}  {{{{- include "fournos.settings" . | nindent {indent} }}}}'
    return [f"{pad}{{{{- with {values} }}}}", inner, f"{pad}{{{{- end }}}}"]


_BLOCKS: Final[Mapping[str, Callable[[str, str, list[str]], list[str]]]] = {
    "block": _block,
    "optional": _optional,
    "variable": _variable,
    "settings": _settings,
}
"""The first word of an expression that stands for lines → what writes them from its line, the rest of the
expression and the lines that follow."""
