"""The exceptions of the client, all of them FournosErrors: `message` is the problem, `fix` what to do."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, ParamSpec, TypeVar, cast

from fournos.engine.kube import errors as kube
from fournos.insight.errors import EndedError as EndedError
from fournos.insight.errors import FournosError as FournosError
from fournos.insight.errors import ManifestError as ManifestError
from fournos.insight.errors import MissingError as MissingError
from fournos.insight.errors import NoLogError as NoLogError

if TYPE_CHECKING:
    from fournos.client.views import JobView, View
    from fournos.insight.failure import Failure


class NoHistoryError(FournosError):
    """The cluster has no history (or its API does not answer yet)."""


class KeyConflict(FournosError):  # noqa: N818 - an outcome
    """The key was already used for a job with another spec, or for a job that is being deleted."""


class NotThereError(MissingError):
    """The API server answers that there is no such object."""


class DeletedError(MissingError):
    """The object of a handle was deleted, or another object (another UID) has its name."""


class NotEndedError(FournosError):
    """The operation requires a job that has ended."""


class JobFailed(FournosError):  # noqa: N818 - an outcome
    """The awaited job has failed.  `job` is its handle, `failure` the category and the first error."""

    def __init__(self, job: JobView, failure: Failure) -> None:
        where = f"task {failure.task}: " if failure.task else ""
        super().__init__(
            f"{job.name} failed ({failure.category.value}): {where}{failure.message}",
            fix=f"what was printed: fournos logs {job.name}; the rest: fournos explain {job.name}",
        )
        self.job = job
        self.failure = failure


class JobStopped(FournosError):  # noqa: N818 - an outcome
    """The awaited job was stopped.  `job` is its handle."""

    def __init__(self, job: JobView) -> None:
        super().__init__(f"{job.name} was stopped: {job.message}".removesuffix(": "))
        self.job = job


class ObjectFailed(FournosError):  # noqa: N818 - an outcome
    """The awaited object, of another kind than FournosJob, has failed.  `handle` is its handle."""

    def __init__(self, handle: View, *, fix: str) -> None:
        super().__init__(f"{handle.name} failed: {handle.message}".removesuffix(": "), fix=fix)
        self.handle = handle


class WaitTimeout(FournosError):  # noqa: N818 - an outcome
    """The timeout expired; the operation continues.

    `handle` is that of the awaited object, `verdict` why it waits, as `explain` says it; "" where that is not
    known.
    """

    def __init__(self, handle: object, message: str, *, verdict: str = "") -> None:
        super().__init__(f"{message}. {verdict}" if verdict else message, fix="wait again, with more time")
        self.handle = handle
        self.verdict = verdict


class ApiError(FournosError):
    """The API server refuses or does not answer.  `cause` is the KubeError."""

    def __init__(self, cause: kube.KubeError, *, fix: str) -> None:
        super().__init__(cause.message, fix=fix)
        self.cause = cause
        self.status = cause.status
        """The HTTP status of the answer; 0 without one."""


class NotAllowedError(ApiError):
    """A missing permission, or no valid credentials."""


class NotInstalledError(ApiError):
    """The API server does not serve this kind."""


class RefusedError(ApiError):
    """The API server refuses the content."""


class ConflictError(ApiError):
    """The object was changed, or the name was taken, by another client."""


class NameTakenError(ConflictError):
    """Another object has the name."""


class UnreachableError(ApiError):
    """The API server did not answer; a write may have been applied."""


class HistoryUnavailableError(kube.ServerError):
    """The history's API or its store does not answer; the message says which.

    It is translated to UnreachableError.
    """

    fix: ClassVar[str] = "see what is wrong with it: fournos doctor"


class HistoryBusyError(HistoryUnavailableError):
    """The history receives as much as it can, of all or for the run or account; it asks for another try."""

    fix: ClassVar[str] = "send it again later, and fewer files at once; what has arrived is not stored twice"


class HistoryFullError(HistoryUnavailableError):
    """The volume of the history, or the namespace's share of it, has no room."""

    fix: ClassVar[str] = (
        "make room: delete runs that nobody needs (an administrator: fournos history delete, or a larger "
        "volume or share), then send it again"
    )


_FIXES: Final[tuple[tuple[type[kube.KubeError], type[ApiError], str], ...]] = (
    (kube.CredentialsError, NotAllowedError, "name a kubeconfig: Client(kubeconfig=…)"),
    (
        kube.ForbiddenError,
        NotAllowedError,
        "ask an administrator for this right, or name another namespace",
    ),
    (kube.NoSuchResourceError, NotInstalledError, "install the CRDs, or choose the right cluster: context=…"),
    (kube.InvalidError, RefusedError, "correct the named fields and try again"),
    (kube.AlreadyExistsError, NameTakenError, "choose another name, or submit with a key"),
    (kube.ConflictError, ConflictError, "it was changed meanwhile: refresh() and try again"),
    (HistoryBusyError, UnreachableError, HistoryBusyError.fix),
    (HistoryFullError, UnreachableError, HistoryFullError.fix),
    (HistoryUnavailableError, UnreachableError, HistoryUnavailableError.fix),
    (kube.ServerError, UnreachableError, "the API server has a problem: try again"),
    (kube.KubeError, UnreachableError, "check the network and the address in the kubeconfig"),
)
"""KubeError → error of the client and its fix; the first match wins, so subclasses come first."""


def from_kube(error: kube.KubeError) -> FournosError:
    """Returns the client's error for a KubeError."""
    if isinstance(error, kube.NotFoundError):
        return NotThereError(error.message, fix="see what there is: jobs(), clusters(), …")
    return next(made(error, fix=fix) for kind, made, fix in _FIXES if isinstance(error, kind))


@contextmanager
def translated() -> Iterator[None]:
    """Raises each KubeError of the block as the client's error, with the KubeError as its cause."""
    try:
        yield
    except kube.KubeError as error:
        raise from_kube(error) from error


P = ParamSpec("P")
T = TypeVar("T")


def typed(method: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Decorates a coroutine function: its KubeErrors become errors of this module."""

    @functools.wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with translated():
            return await method(*args, **kwargs)

    return call


def typed_iterator(method: Callable[P, AsyncIterator[T]]) -> Callable[P, AsyncIterator[T]]:
    """As `typed`, for an asynchronous generator."""

    @functools.wraps(method)
    async def iterate(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
        with translated():
            async with aclosing(cast(Any, method(*args, **kwargs))) as found:
                async for one in found:
                    yield one

    return iterate
