"""The types of an admission webhook: the requests that it reviews, and its pure review.

    review(request, facts) -> Review

The contract is that of a decision (`runtime.decision`): the review is pure, and it is called again
with the answers to the questions that it requires.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from fournos.engine.api.rules import Violation
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.runtime.decision import Facts, User

Operation = Literal["CREATE", "UPDATE"]

_KUEUE = "kueue-"


@dataclass(frozen=True, slots=True)
class Request:
    """One AdmissionRequest."""

    operation: Operation
    user: User
    key: Key
    """Namespace and name; the name is "" if the API server will generate it from `generateName`."""
    new: Obj
    """The object of the request; its metadata always contain the namespace."""
    old: Obj | None = None
    """The stored object; None at creation."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Review:
    """The result of a review; the request is admitted if there are no problems."""

    problems: tuple[Violation, ...] = ()
    transient: bool = False
    """True: refused for now, because a fact could not be fetched; another try may succeed."""
    patch: Mapping[str, Any] = field(default_factory=dict)
    """For a mutating webhook: the JSON merge patch (RFC 7396) to the new object; lists are replaced whole."""
    warnings: tuple[str, ...] = ()
    """Warnings for the client, sent with any result; one line each."""


class ReviewFunction(Protocol):
    """A review function.  It is pure: no I/O, no clock, no randomness."""

    def __call__(self, request: Request, facts: Facts) -> Review: ...


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook: a path of the server and an entry of a webhook configuration.

    Entries with the same `kind` and `configuration` are in one object, which belongs to us alone.  The API
    server calls mutating configurations in the order of their names, and ours must come before Kueue's.
    """

    kind: Literal["mutating", "validating"]
    name: str
    """Name of the entry: a domain name with at least two dots."""
    configuration: str
    """Name of the webhook configuration.  No two deployments may use the same name."""
    path: str
    """Path on the server; it begins with a slash."""
    resources: tuple[Resource, ...]
    operations: tuple[Operation, ...]
    review: ReviewFunction
    subresources: tuple[str, ...] = ("",)
    """Subresources of the resources; "" is the resource itself."""
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    """What the API server does with a request when the webhook does not respond."""
    timeout: int = 10
    """Seconds that the API server waits for the response, 1 to 30."""
    namespaces: Mapping[str, Any] = field(default_factory=dict)
    """Label selector of namespaces; {} selects all."""
    objects: Mapping[str, Any] = field(default_factory=dict)
    """Label selector of the objects.  Users choose labels, so a protection must not depend on it."""
    conditions: tuple[tuple[str, str], ...] = ()
    """Match conditions (name, CEL expression); the API server sends only requests that match all of them."""
    again: bool = False
    """For a mutating webhook: called again if a later webhook has changed the object."""

    def __post_init__(self) -> None:
        """Raises ValueError if the API server would not register or order the webhook as required."""
        if not self.path.startswith("/"):
            raise ValueError(f"{self.name}: a path begins with a slash")
        if self.kind == "mutating" and self.configuration >= _KUEUE:
            raise ValueError(
                f"{self.configuration} must sort before {_KUEUE}: Kueue sees what is set before it"
            )
