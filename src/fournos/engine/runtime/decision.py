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
from typing import Any, Literal, ParamSpec, Protocol, TypeAlias, TypeVar, overload

from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.runtime.steps import Step

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


@dataclass(frozen=True, slots=True)
class UnknownFields:
    """The fields of an object that the API server does not know and would drop at creation (by a dry run).

    Answer value: tuple[str, ...] of paths.
    """

    resource: Resource
    manifest: str
    """The object, as JSON."""


Question: TypeAlias = LiveGet | LiveList | SecretShape | LogTail | UserAccess | UnknownFields

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
