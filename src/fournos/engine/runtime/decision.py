"""The contract of all controllers: observe → decide → act.

    decide(observed, facts, now) -> Decision

`decide` is pure.  It requires facts that the cache does not hold from `facts` (`Facts.require`).  A fact that
is not known yet stops the decision.  The runtime fetches it and calls `decide` again from its start, at most
`MAX_ROUNDS` times a pass.  Answers are valid for one pass, a context and a status draft for one round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal, ParamSpec, Protocol, TypeAlias, TypeVar, overload

from fournos.engine.kube.resource import Key, Obj, Resource

# --- steps ------------------------------------------------------------------------------------------
# The steps of a decision: ordered, typed data that `act` executes.
#
# Steps are data so that a test can crash between any two of them.


@dataclass(frozen=True, slots=True)
class NameTaken:
    """Why the existing object with the name is not the one to be created."""

    reason: str
    waits: bool = False
    """True: the name will be free soon, so the step waits instead of failing."""


@dataclass(frozen=True, slots=True)
class Create:
    """Creates `body`, once.

    If the name is taken: an object with our controller's UID is adopted (the step succeeds).  For an object
    that is terminating or whose owner is gone, the pass waits for its watch event.  Any other object fails
    the step with `ForeignObject`.
    """

    resource: Resource
    body: Obj
    own_label: str = ""
    """For objects that cannot have a controller because it is in another namespace: an object without a
    controller is also ours if this label has the same value as in `body`."""
    name_taken: Callable[[Create, Obj], NameTaken | None] | None = None
    """Replaces the rule above for an existing object; returns None if it is the one to be created.

    For clusters where the UID of a controller has no meaning.
    """


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch.  Where others write too, `body` needs `metadata.resourceVersion` (precondition)."""

    resource: Resource
    key: Key
    body: Obj
    subresource: str | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes exactly the object with this UID; an object that is gone already counts as deleted."""

    resource: Resource
    key: Key
    uid: str
    propagation: str = "Background"
    grace_seconds: int | None = None
    why: str = ""
    """The reason, logged with the deletion; without it the deletion is not logged."""


@dataclass(frozen=True, slots=True)
class CopySecret:
    """Copies a Secret's data into a new Secret; no decision ever sees the data.

    `metadata` is that of the copy (name, namespace, labels, ownerReferences).  A copy of ours with other data
    is updated; the rule for taken names is that of `Create`.  `refuses(name, annotations)` of the source
    returns a message to end the step with `NotAllowed`, or "".
    """

    source: Key
    metadata: Mapping[str, Any] = field(default_factory=dict)
    refuses: Callable[[str, Mapping[str, str]], str] | None = None


@dataclass(frozen=True, slots=True)
class Custom:
    """Base of the steps of a single controller; `Controller.executors` has their executors."""

    foreseen: ClassVar[bool] = False
    """True: the decision that has this step knows what it changes; a settled one needs no other pass."""


Step: TypeAlias = Create | Patch | Delete | CopySecret | Custom


MAX_ROUNDS = 3

# --- questions of a decision -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LiveGet:
    """A live read of one object.  Answer value: the object."""

    resource: Resource
    key: Key


@dataclass(frozen=True, slots=True)
class LiveList:
    """A live list of the objects of a namespace ("" = all).  Answer value: tuple[Obj, ...]."""

    resource: Resource
    namespace: str = ""
    selector: str = ""
    fields: str = ""
    """A field selector."""


@dataclass(frozen=True, slots=True)
class SecretShape:
    """A live read of a Secret without its data.  Answer value: `SecretFacts`."""

    key: Key


@dataclass(frozen=True, slots=True)
class SecretFacts:
    """The properties of a Secret that a decision may see."""

    uid: str
    owner_uids: frozenset[str]
    labels: Mapping[str, str]
    keys: tuple[str, ...]
    """The keys of its data, sorted."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """All but `last-applied-configuration`, in which `kubectl apply` keeps the whole Secret."""


@dataclass(frozen=True, slots=True)
class LogTail:
    """The last log lines of the newest pod with these labels.  Answer value: str."""

    namespace: str
    selector: str
    lines: int = 20
    container: str | None = None


@dataclass(frozen=True, slots=True)
class User:
    """The user that requests a change, as in `userInfo` of an AdmissionReview."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class UserAccess:
    """Whether the user may do this with objects of a type, by a SubjectAccessReview.

    Answer value: bool.
    """

    user: User
    verb: str
    resource: Resource
    namespace: str = ""
    """"": of a type without namespaces."""
    name: str = ""
    """"": of any name."""


Question: TypeAlias = LiveGet | LiveList | SecretShape | LogTail | UserAccess

# --- answers: three-valued -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Present:
    """The question is answered by `value`."""

    value: Any


@dataclass(frozen=True, slots=True)
class Absent:
    """The object does not exist; with `no_kind`, neither does its resource type."""

    no_kind: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """The answer could not be fetched: the right is missing (`forbidden`), or the error is transient."""

    reason: str
    forbidden: bool = False


Answer: TypeAlias = Present | Absent | Unknown


@dataclass(frozen=True, slots=True)
class StepFailure:
    """A step that failed in this pass.

    `error` is the name of the exception's class: "InvalidError", "ForbiddenError", "NotFoundError" (the
    source of a copy), "ForeignObject", "NotAllowed" (a source that refuses to be copied),
    "NoSuchResourceError", "ServerError", "ConnectionLostError".  A `transient` failure is retried with
    backoff whatever the decision contains.  `count` is the number of failed passes in a row.

    The decision is made again with this failure in the same pass.  If the failure is transient, only the
    status and the events of that second decision are written and its steps are not run; so the second
    decision must not declare results of those steps.  If it is not transient, the steps are run once.
    """

    step: Step
    error: str
    message: str
    transient: bool
    count: int
    reason: str = ""
    """A more exact reason if there is one: the reason of a Status, or why a kubeconfig is refused."""


class MissingFacts(BaseException):
    """Stops a decision until its questions are answered.

    Derives from BaseException so that no error handler in a decision catches it; only `attempt` does.
    """

    def __init__(self, questions: tuple[Question, ...]) -> None:
        super().__init__(*questions)
        self.questions = questions


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that this pass has fetched in addition to the cache."""

    answers: Mapping[Question, Answer] = field(default_factory=dict)
    failure: StepFailure | None = None

    @overload
    def require(self, question: Question, /) -> Answer: ...
    @overload
    def require(self, first: Question, second: Question, /, *more: Question) -> tuple[Answer, ...]: ...
    def require(self, *questions: Question) -> Answer | tuple[Answer, ...]:
        """Returns the answers in the order of the questions; for a single question, its answer.

        Independent questions belong in one call, because each call with unknown answers costs a round.
        Raises MissingFacts, which stops the decision, if an answer is not known yet.
        """
        answers = self.require_all(questions)
        return answers[0] if len(answers) == 1 else answers

    def require_all(self, questions: Iterable[Question]) -> tuple[Answer, ...]:
        """Like `require`, for a number of questions that is not known beforehand."""
        asked = tuple(questions)
        if missing := tuple(question for question in asked if question not in self.answers):
            raise MissingFacts(missing)
        return tuple(self.answers[question] for question in asked)

    def known(self, questions: Iterable[Question]) -> bool:
        """True if the API server has answered all of them, so that no answer is Unknown."""
        return not any(isinstance(answer, Unknown) for answer in self.require_all(questions))

    def get(self, question: Question) -> Answer | None:
        """Returns the answer if it is known already, else None; never stops the decision."""
        return self.answers.get(question)


@dataclass(frozen=True, slots=True)
class NeededFacts:
    """The result of `attempt` when a decision requires the answers to these questions first."""

    questions: tuple[Question, ...]


P = ParamSpec("P")
T = TypeVar("T")


def attempt(decide: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | NeededFacts:
    """Calls a pure decision; returns Need if it requires answers that its facts do not have."""
    try:
        return decide(*args, **kwargs)
    except MissingFacts as missing:
        return NeededFacts(missing.questions)


# --- decisions -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EventRecord:
    """A Kubernetes Event about the object; it is sent after the status was written."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    about: tuple[Resource, Obj] | None = None
    """The object of the Event if it is not the reconciled one, such as an object with a namespace."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of a decision: steps in order, then one status write, then the events.

    `status` is the whole wanted status (None: leave it).  Only keys that differ are written, with the
    observed resourceVersion as a precondition.  `wake_at` runs the key again at that time.  `retry` runs it
    again with backoff, for a fact that changes without a watch event.  `settled`: when the steps are done,
    nothing remains to be decided before the next watch event or `wake_at`, so that the objects which they
    have made start no pass.
    """

    steps: tuple[Step, ...] = ()
    status: Obj | None = None
    events: tuple[EventRecord, ...] = ()
    wake_at: datetime | None = None
    retry: bool = False
    settled: bool = False


Observed_contra = TypeVar("Observed_contra", contravariant=True)


class Decide(Protocol[Observed_contra]):
    """A decision function.  It is pure: no I/O, no clock, no randomness."""

    def __call__(self, observed: Observed_contra, facts: Facts, now: datetime) -> Decision: ...
