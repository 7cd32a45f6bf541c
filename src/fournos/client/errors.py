"""What programs catch.  Each names what is wrong and, in `fix`, what to do about it.

FournosError
├── ManifestError           the job would be refused; `violations` names the fields
├── KeyConflict             the key was used for another spec
├── MissingError            there is no object of this name
│   └── DeletedError        the object is gone, or another one took its name
├── NoLogError              there is no log of what was asked for
├── JobFailed               `failure` has the category and the first error
├── JobStopped
├── WaitTimeout             the time is over; what was waited for goes on
├── NotEndedError           the job has not ended, which this needs
└── ApiError                the API server refuses, or does not answer; `cause` is its own error
    ├── NotAllowedError     no right, or no valid credentials
    ├── NotInstalledError   the kind is not served
    ├── RefusedError        the API server refuses the content
    ├── ConflictError       the object changed at the same time
    └── UnreachableError    no answer: a write may have happened
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast

from fournos.insight.errors import FournosError, ManifestError, MissingError, NoLogError
from fournos.kube import errors as kube

if TYPE_CHECKING:
    from fournos.client.views import JobView
    from fournos.insight.failure import Failure

__all__ = [
    "ApiError",
    "ConflictError",
    "DeletedError",
    "FournosError",
    "JobFailed",
    "JobStopped",
    "KeyConflict",
    "ManifestError",
    "MissingError",
    "NoLogError",
    "NotAllowedError",
    "NotEndedError",
    "NotInstalledError",
    "RefusedError",
    "UnreachableError",
    "WaitTimeout",
]


class KeyConflict(FournosError):  # noqa: N818 - an outcome
    """The key was used before, for a job with another spec."""


class DeletedError(MissingError):
    """The object that a handle stands for is gone, or its name belongs to another object."""


class NotEndedError(FournosError):
    """The job has not ended."""


class JobFailed(FournosError):  # noqa: N818 - an outcome
    """The job that was waited for has failed."""

    def __init__(self, job: JobView, failure: Failure) -> None:
        where = f"task {failure.task}: " if failure.task else ""
        super().__init__(
            f"{job.name} failed ({failure.category.value}): {where}{failure.message}",
            fix=f"what was printed: fournos logs {job.name}; the rest: fournos explain {job.name}",
        )
        self.job = job
        self.failure = failure


class JobStopped(FournosError):  # noqa: N818 - an outcome
    """The job that was waited for was stopped."""

    def __init__(self, job: JobView) -> None:
        super().__init__(f"{job.name} was stopped: {job.message}".removesuffix(": "))
        self.job = job


class WaitTimeout(FournosError):  # noqa: N818 - an outcome
    """The time is over; what was asked for goes on.  `handle` is of what was waited for."""

    def __init__(self, handle: object, message: str) -> None:
        super().__init__(message, fix="wait again, with more time")
        self.handle = handle


class ApiError(FournosError):
    """The API server refuses, or does not answer."""

    def __init__(self, cause: kube.KubeError, *, fix: str) -> None:
        super().__init__(cause.message, fix=fix)
        self.cause = cause


class NotAllowedError(ApiError):
    """No right, or no valid credentials."""


class NotInstalledError(ApiError):
    """The API server does not serve this kind."""


class RefusedError(ApiError):
    """The API server refuses the content."""


class ConflictError(ApiError):
    """The object changed, or a name was taken, at the same time."""


class UnreachableError(ApiError):
    """No answer of the API server; a write may have happened."""


_FIXES: Final[tuple[tuple[type[kube.KubeError], type[ApiError], str], ...]] = (
    (kube.CredentialsError, NotAllowedError, "name a kubeconfig: Client(kubeconfig=…)"),
    (
        kube.ForbiddenError,
        NotAllowedError,
        "ask an administrator for this right, or name another namespace",
    ),
    (kube.NoSuchResourceError, NotInstalledError, "install the CRDs, or choose the right cluster: context=…"),
    (kube.InvalidError, RefusedError, "correct the named fields and try again"),
    (kube.AlreadyExistsError, ConflictError, "choose another name, or submit with a key"),
    (kube.ConflictError, ConflictError, "it was changed meanwhile: refresh() and try again"),
    (kube.ServerError, UnreachableError, "the API server has a problem: try again"),
    (kube.KubeError, UnreachableError, "check the network and the address in the kubeconfig"),
)
"""The first that fits counts."""


def from_kube(error: kube.KubeError) -> FournosError:
    """The error that programs see in place of the API server's own."""
    if isinstance(error, kube.NotFoundError):
        return MissingError(error.message, fix="see what there is: jobs(), clusters(), …")
    return next(made(error, fix=fix) for kind, made, fix in _FIXES if isinstance(error, kind))


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except kube.KubeError as error:
        raise from_kube(error) from error


P = ParamSpec("P")
T = TypeVar("T")


def typed(method: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """A coroutine whose errors are those of this module."""

    @functools.wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with translated():
            return await method(*args, **kwargs)

    return call


def typed_iterator(method: Callable[P, AsyncIterator[T]]) -> Callable[P, AsyncIterator[T]]:
    """The same for an asynchronous generator."""

    @functools.wraps(method)
    async def iterate(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
        with translated():
            async with aclosing(cast(Any, method(*args, **kwargs))) as found:
                async for one in found:
                    yield one

    return iterate
