"""The one contract of all controllers: observe → decide → act.

    decide(observed, facts, now) -> Decision

`decide` is pure.  What the cache does not hold it requires from `facts` (`Facts.require`): the first time
that stops the decision, the loop fetches the answers and calls `decide` again from its start, at most
`MAX_ROUNDS` times a pass.  Answers live for one pass, a context and a status draft for one round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, ParamSpec, Protocol, TypeAlias, TypeVar, overload

from fournos.kube.resource import Key, Obj, Resource
from fournos.runtime.steps import Step

MAX_ROUNDS = 3

# --- what a decision may ask for -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LiveGet:
    """The object as the API server has it now.  Answer value: the object."""

    resource: Resource
    key: Key


@dataclass(frozen=True, slots=True)
class LiveList:
    """The objects of a namespace ("" = all) as they are now.  Answer value: tuple[Obj, ...]."""

    resource: Resource
    namespace: str = ""
    selector: str = ""
    fields: str = ""
    """A field selector."""


@dataclass(frozen=True, slots=True)
class SecretShape:
    """A Secret without its bytes.  Answer value: `SecretFacts`."""

    key: Key


@dataclass(frozen=True, slots=True)
class SecretFacts:
    uid: str
    owner_uids: frozenset[str]
    labels: Mapping[str, str]
    keys: tuple[str, ...]
    """Sorted data keys."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Without the copy of the whole Secret that `kubectl apply` leaves in one."""


@dataclass(frozen=True, slots=True)
class LogTail:
    """The last lines of the newest pod with these labels.  Answer value: str."""

    namespace: str
    selector: str
    lines: int = 20
    container: str | None = None


@dataclass(frozen=True, slots=True)
class User:
    """Who asks for a change, as an AdmissionReview says."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class MayCreate:
    """Whether the user may create objects of this type there (a SubjectAccessReview).  Answer value: bool."""

    user: User
    resource: Resource
    namespace: str


@dataclass(frozen=True, slots=True)
class UnknownFields:
    """Which fields of an object the API server does not know, so that it drops them at creation (a dry run).
    Answer value: tuple[str, ...] of paths."""

    resource: Resource
    manifest: str
    """The object, as JSON."""


Question: TypeAlias = LiveGet | LiveList | SecretShape | LogTail | MayCreate | UnknownFields

# --- answers: three-valued -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Present:
    value: Any


@dataclass(frozen=True, slots=True)
class Absent:
    """The API server says that it does not exist (the resource type included, then `no_kind`)."""

    no_kind: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """It could not be learnt: `forbidden` when we lack the right, else transient."""

    reason: str
    forbidden: bool = False


Answer: TypeAlias = Present | Absent | Unknown


@dataclass(frozen=True, slots=True)
class StepFailure:
    """A step that failed in this pass.

    `error` is the exception's class: "InvalidError", "ForbiddenError", "NotFoundError" (the source of a
    copy), "ForeignObject", "NotAllowed" (a source that refuses to be copied), "NoSuchResourceError",
    "ServerError", "ConnectionLostError".  `transient` ones are retried with backoff whatever the decision
    says; `count` is how many passes in a row have failed.

    The decision is asked again with it in the same pass.  If it is transient only the status and events of
    that second decision are written, its steps are not run: so it must not declare what they would bring
    about.  If it is not, the steps are run, once.
    """

    step: Step
    error: str
    message: str
    transient: bool
    count: int
    reason: str = ""
    """The error's own word for it, if it has one: a Status reason, or why a kubeconfig is refused."""


class MissingFacts(BaseException):
    """Stops a decision until its questions are answered.

    A BaseException, so that no handler of errors in a decision swallows it; only `attempt` catches it.
    """

    def __init__(self, questions: tuple[Question, ...]) -> None:
        super().__init__(*questions)
        self.questions = questions


@dataclass(frozen=True, slots=True)
class Facts:
    """What this pass has learnt beyond the cache."""

    answers: Mapping[Question, Answer] = field(default_factory=dict)
    failure: StepFailure | None = None

    @overload
    def require(self, question: Question, /) -> Answer: ...
    @overload
    def require(self, first: Question, second: Question, /, *more: Question) -> tuple[Answer, ...]: ...
    def require(self, *questions: Question) -> Answer | tuple[Answer, ...]:
        """The answers in the order of the questions; of a single question its answer.

        Independent questions belong in one call: each call that has to wait costs a round.
        Raises MissingFacts if one is not known yet, which stops the decision.
        """
        answers = self.require_all(questions)
        return answers[0] if len(answers) == 1 else answers

    def require_all(self, questions: Iterable[Question]) -> tuple[Answer, ...]:
        """`require` for questions whose number is not known beforehand."""
        wanted = tuple(questions)
        if missing := tuple(question for question in wanted if question not in self.answers):
            raise MissingFacts(missing)
        return tuple(self.answers[question] for question in wanted)

    def known(self, questions: Iterable[Question]) -> bool:
        """Whether the API server has answered them all: none is Unknown."""
        return not any(isinstance(answer, Unknown) for answer in self.require_all(questions))

    def get(self, question: Question) -> Answer | None:
        """The answer if it is known; does not ask."""
        return self.answers.get(question)


@dataclass(frozen=True, slots=True)
class Need:
    """What `attempt` returns where a decision needs these answers first."""

    questions: tuple[Question, ...]


P = ParamSpec("P")
T = TypeVar("T")


def attempt(decide: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Need:
    """Calls a pure decision; a Need where it requires answers that its facts do not have."""
    try:
        return decide(*args, **kwargs)
    except MissingFacts as missing:
        return Need(missing.questions)


# --- what is decided -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EventRecord:
    """A Kubernetes Event about the object, sent after its status was written."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    about: tuple[Resource, Obj] | None = None
    """Another object than the pass's own, such as one with a namespace."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Steps in order, then one status write, then the events.

    `status` is the whole wanted status (None: leave it); only keys that differ are written, with the
    observed resourceVersion.  `wake_at` runs the key again at that time.  `retry` runs it again with
    backoff (something waits on a fact that has no event).
    """

    steps: tuple[Step, ...] = ()
    status: Obj | None = None
    events: tuple[EventRecord, ...] = ()
    wake_at: datetime | None = None
    retry: bool = False


Observed_contra = TypeVar("Observed_contra", contravariant=True)


class Decide(Protocol[Observed_contra]):
    """Pure: no I/O, no clock, no randomness."""

    def __call__(self, observed: Observed_contra, facts: Facts, now: datetime) -> Decision: ...
