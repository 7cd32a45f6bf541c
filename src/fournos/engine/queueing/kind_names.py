"""Names of kinds in the form of Kueue's `externalFrameworks` setting: `Kind.version.group`."""

from __future__ import annotations

import re
from typing import Final

from fournos.engine.kube.resource import Resource, usual_plural

_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_VERSION: Final = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_GROUP: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")


class BadNameError(ValueError):
    """The name of a kind is invalid; the message has the reason and, where possible, the fix."""


def parse_name(text: str, *, plural: str = "") -> Resource:
    """Returns the resource type of the name.  `plural`: if it is not the usual one.  Raises BadNameError."""
    kind, _, rest = text.partition(".")
    version, _, group = rest.partition(".")
    if not _KIND.fullmatch(kind):
        fix = f": kinds start with a capital, as {kind[:1].upper()}{kind[1:]}" if kind[:1].islower() else ""
        raise BadNameError(f"{text!r} is not a Kind.version.group: {kind!r} is not a kind{fix}")
    if not _VERSION.fullmatch(version):
        fix = f"; write the version, as {kind}.v1.{rest}" if rest else f", as {kind}.v1.example.com"
        raise BadNameError(f"{text!r} is not a Kind.version.group: {version!r} is not an API version{fix}")
    if not _GROUP.fullmatch(group):
        raise BadNameError(
            f"{text!r} is not a Kind.version.group: {group!r} is not an API group, "
            f"as {kind}.{version}.example.com"
        )
    return Resource(group, version, kind, plural or usual_plural(kind))


def name_of(resource: Resource) -> str:
    """Returns the name in the form of Kueue's configuration: `Kind.version.group`."""
    return f"{resource.kind}.{resource.version}.{resource.group}"


def cure_of(message: str, kind: Resource) -> str:
    """Returns the fix for a creation that Kueue's webhook did not answer; "" for any other error.

    Kueue looks up the owner of a new object and waits for a cache of the owner's kind.  Without the right to
    read that kind the cache never syncs.
    """
    if "failed calling webhook" not in message or "kueue" not in message:
        return ""
    return (
        f" (if Kueue's configuration lists {name_of(kind)} under integrations.externalFrameworks, "
        f"Kueue needs the right to read {kind.plural}: kubectl apply --server-side -k deploy/kueue)"
    )
