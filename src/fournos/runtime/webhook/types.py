"""What a system gives to the webhook server: which requests it reviews, and a pure review.

    review(request, facts) -> Review

The contract is that of a decision (`fournos.runtime.decision`): pure, called again with the answers to what
it requires.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from fournos.api.rules import Violation
from fournos.kube.resource import Key, Obj, Resource
from fournos.runtime.decision import Facts, User

Operation = Literal["CREATE", "UPDATE"]

_KUEUE = "kueue-"


@dataclass(frozen=True, slots=True)
class Request:
    """One AdmissionRequest."""

    operation: Operation
    user: User
    key: Key
    """The name is "" where the API server will make one of `generateName`."""
    new: Obj
    """Its metadata name the namespace, too."""
    old: Obj | None = None
    """None at creation."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Review:
    """Admitted if nothing is wrong."""

    problems: tuple[Violation, ...] = ()
    transient: bool = False
    """Refused for now: another try may succeed (something could not be learnt)."""
    patch: Mapping[str, Any] = field(default_factory=dict)
    """Of a mutating webhook: the JSON merge patch (RFC 7396) to the new object; lists are replaced whole."""
    warnings: tuple[str, ...] = ()
    """ServingCertificate to who asks, whatever the verdict; one line each."""


class Reviewer(Protocol):
    """Pure: no I/O, no clock, no randomness."""

    def __call__(self, request: Request, facts: Facts) -> Review: ...


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook: a path of the server and an entry of a webhook configuration.

    Entries with the same `kind` and `configuration` stand in one object, which is wholly ours.  The API
    server asks the mutating configurations in the order of their names, so ours must come before Kueue's.
    """

    kind: Literal["mutating", "validating"]
    name: str
    """Of the entry: a domain name with two dots at least."""
    configuration: str
    """Name of the webhook configuration.  No two deployments may share one."""
    path: str
    """Begins with a slash."""
    resources: tuple[Resource, ...]
    operations: tuple[Operation, ...]
    review: Reviewer
    subresources: tuple[str, ...] = ("",)
    """Of the resources; "" is the resource itself."""
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    """What the API server does with a request when nobody answers."""
    timeout: int = 10
    """Seconds that the API server waits, 1 to 30."""
    namespaces: Mapping[str, Any] = field(default_factory=dict)
    """Label selector of namespaces; {} is all."""
    objects: Mapping[str, Any] = field(default_factory=dict)
    """Label selector of the objects themselves.  Users choose labels: not for what protects."""
    conditions: tuple[tuple[str, str], ...] = ()
    """Name and CEL expression of each match condition: others are not even asked about."""
    again: bool = False
    """Mutating: asked once more when a later webhook has changed the object."""

    def __post_init__(self) -> None:
        """Raises ValueError where the API server would not do what is meant."""
        if not self.path.startswith("/"):
            raise ValueError(f"{self.name}: a path begins with a slash")
        if self.kind == "mutating" and self.configuration >= _KUEUE:
            raise ValueError(
                f"{self.configuration} must sort before {_KUEUE}: Kueue sees what is set before it"
            )
