"""A MiniCluster as the builders read it: its typed spec, name, status and settings, and users' text."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import Any, Final

from fournos.api.kinds import MINICLUSTER
from fournos.api.minicluster import DEFAULT_HEADLESS_NAME, MiniClusterSpec
from fournos.api.minicluster_container import Container
from fournos.engine.kube.resource import Obj, owner_reference, without_null
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.settings import MiniClusterSettings
from fournos.systems.miniclusters.status import summary_of

_DEFAULT_NAMESPACE = "default"
"""The namespace of a manifest without one, when it is rendered without access to a cluster."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The input of all builders of a MiniCluster's objects."""

    name: str
    namespace: str
    uid: str
    """Empty before the MiniCluster is created. Objects that are rendered then have no owner reference."""
    spec: MiniClusterSpec
    maximum: int
    """The number of hosts that the brokers are configured for.

    It is fixed at the start and does not follow the size.
    """
    settings: MiniClusterSettings

    @property
    def runner(self) -> Container:
        return self.spec.runner

    @property
    def beside(self) -> tuple[Container, ...]:
        """The containers of the pods that do not run Flux."""
        found = self.spec.containers
        return tuple(one for index, one in enumerate(found) if index != self.spec.runner_index)

    @property
    def headless_name(self) -> str:
        return self.spec.network.headless_name or DEFAULT_HEADLESS_NAME

    @property
    def mount(self) -> str:
        return self.spec.flux.container.mount_path or "/mnt/flux"

    @property
    def config(self) -> str:
        """The directory of everything that is not part of the view: configuration, state, socket."""
        return f"{self.mount}/config"

    @property
    def socket(self) -> str:
        return f"{self.config}/run/flux/local"

    @property
    def bursted(self) -> bool:
        """True if the lead broker runs in another cluster. All pods are workers then."""
        return self.spec.flux.lead is not None

    @property
    def lead(self) -> str:
        """The host name of the lead broker."""
        return names.lead(self.spec.flux.lead.name if self.spec.flux.lead else self.name)

    @property
    def interactive(self) -> bool:
        """True if no command runs: none is given, or `interactive` is set.

        On the MiniCluster page such a cluster is persistent.
        """
        runner = self.runner
        if runner.diagnostics:
            return False
        return self.spec.interactive or not (runner.command or runner.commands.script)

    @property
    def batch(self) -> bool:
        """True if the command is run by flux batch. `batchRaw` alone implies it."""
        runner = self.runner
        return runner.batch or (runner.batch_raw and not (runner.launcher or self.spec.launcher))

    @property
    def retried(self) -> bool:
        """True if a command that failed is run again in another pod."""
        return self.spec.backoff_limit is not None

    @property
    def patience(self) -> int:
        """Seconds between two checks of a pod on its broker, from 1 to 30.

        Each check starts a process, and all pods may be on one node. The interval therefore grows with the
        number of pods that start together.
        """
        return max(1, min(30, self.spec.size // 4))

    @property
    def at_its_largest(self) -> Cluster:
        """Returns the same with the largest size: what is queued must not change with a resize."""
        return replace(self, spec=self.spec.model_copy(update={"size": self.maximum}))

    def metadata(self, name: str, *, controller: bool = True, **more: Any) -> dict[str, Any]:
        """Returns the metadata of an object that is created for the MiniCluster."""
        meta: dict[str, Any] = {"name": name, "namespace": self.namespace, "labels": names.labels(self.name)}
        if self.uid:
            meta["ownerReferences"] = [self.owner_reference(controller=controller)]
        return {**meta, **more}

    def owner_reference(self, *, controller: bool = True) -> dict[str, Any]:
        owner = {"metadata": {"name": self.name, "uid": self.uid}}
        return owner_reference(MINICLUSTER, owner, controller=controller)


def spec_of(minicluster: Obj) -> MiniClusterSpec:
    """Returns the typed spec.

    Fields with the value null count as absent. Raises pydantic's ValidationError.
    """
    return MiniClusterSpec.model_validate(without_null(minicluster.get("spec") or {}))


def cluster_of(minicluster: Obj, settings: MiniClusterSettings) -> Cluster:
    """Returns the builders' input for a MiniCluster. Raises pydantic's ValidationError."""
    meta, spec = minicluster["metadata"], spec_of(minicluster)
    return Cluster(
        name=meta["name"],
        namespace=meta.get("namespace") or _DEFAULT_NAMESPACE,
        uid=meta.get("uid") or "",
        spec=spec,
        maximum=summary_of(minicluster).maximum_size or spec.maximum,
        settings=settings,
    )


# --- users' text as shell code -------------------------------------------------------------------------
# Converts users' text to shell code: the words of a command, or a script without its escapes.

_SPECIAL: Final = frozenset(";&|<>(){}#~!")
"""Unquoted, these characters are shell syntax. A command is only a list of words, so they are escaped."""
_EXPANDS: Final = re.compile(r"[A-Za-z0-9_({@*#?$!-]")
_CLOSING: Final = {"(": ")", "{": "}"}
_OPENING: Final = {closing: opening for opening, closing in _CLOSING.items()}
_ESCAPED: Final = re.compile(r"\\([$`\\\n])")

quote = shlex.quote


def words(text: str) -> str:
    """Returns the words of a command, for use within the parentheses of a bash array.

    Quotes group words. Variables, $(…) and patterns expand in the entrypoint. Lines are joined. Operators
    such as && are words. Quotes that do not match are ordinary characters.
    """
    text = text.strip()
    return _words(text, literal=False) or _words(text, literal=True) or ""


def _words(text: str, *, literal: bool) -> str | None:
    """Returns the words; None if a quote or a $( is not closed.

    With `literal` quotes and expansions are ordinary characters.
    """
    out: list[str] = []
    position, quoted = 0, ""
    while position < len(text):
        char = text[position]
        following = text[position + 1 : position + 2]
        position += 1
        if char == "\x00":
            continue
        if quoted == "'":
            quoted = "" if char == "'" else quoted
            out.append(char)
        elif char == "\\":
            # A backslash joins lines. At the very end it is doubled, because it would escape the next
            # character.
            if following == "\n":
                out.append(" ")
            else:
                out.append(char + (following or "\\"))
            position += 1
        elif literal and char in "'\"`$":
            out.append(f"\\{char}")
        elif char == "$" and not _EXPANDS.match(following):
            out.append("\\$")  # $[…], $'…' and $"…" are bash syntax that users do not mean
        elif char in "$`" and (end := _expansion(text, position - 1)) is not None:
            if end < 0:
                return None
            out.append(text[position - 1 : end])
            position = end
        elif char == '"':
            quoted = "" if quoted else '"'
            out.append(char)
        elif quoted:
            out.append(char)
        elif char == "'":
            quoted = "'"
            out.append(char)
        elif char in "\r\n":
            out.append(" ")
        elif char == "[" and (not out or out[-1].isspace()):
            out.append("\\[")  # at the start of a word, bash would read it as a subscript
        else:
            out.append(f"\\{char}" if char in _SPECIAL else char)
    return None if quoted else "".join(out)


def _expansion(text: str, start: int) -> int | None:
    """Returns the position behind the expansion that begins here; None if none, -1 if it is not closed."""
    if text[start] == "`":
        end = text.find("`", start + 1)
        return end + 1 if end >= 0 else -1
    closing = _CLOSING.get(text[start + 1 : start + 2])
    return None if closing is None else _closed(text, start + 2, closing)


_DEEPEST = 50
"""The greatest depth of nested expansions that is parsed."""


def _closed(text: str, position: int, closing: str, depth: int = 0) -> int:
    """Returns the position behind the next `closing` outside quotes and inner brackets; -1 if none."""
    opening = _OPENING.get(closing, "")
    if depth > _DEEPEST:
        return -1
    while 0 <= position < len(text):
        char = text[position]
        position += 1
        if char == closing:
            return position
        if char == "\\":
            position += 1
        elif char == "'" and closing != '"':
            position = text.find("'", position) + 1 or -1
        elif char == '"':
            position = _closed(text, position, '"', depth + 1)
        elif char == "$" and (inner := _CLOSING.get(text[position : position + 1])):
            position = _closed(text, position + 1, inner, depth + 1)
        elif char == opening:
            position = _closed(text, position, closing, depth + 1)
    return -1


def unescaped(script: str) -> str:
    """Returns a user's script without the escapes that upstream's here-document needs: `\\$` becomes `$`."""
    return _ESCAPED.sub(lambda match: "" if match[1] == "\n" else match[1], script)


def lines(text: str) -> str:
    """Returns the user's shell code with a newline at its end."""
    return text if text.endswith("\n") else f"{text}\n"
