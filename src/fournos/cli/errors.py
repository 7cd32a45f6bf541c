"""The error that ends a command."""

from __future__ import annotations

from fournos.cli.exits import Exit
from fournos.client.errors import (
    ApiError,
    ConflictError,
    EndedError,
    FournosError,
    HistoryUnavailableError,
    MissingError,
    NameTakenError,
    NoHistoryError,
    NoLogError,
    NotAllowedError,
    NotInstalledError,
    NotThereError,
    RefusedError,
    UnreachableError,
    WaitTimeout,
)
from fournos.insight.errors import RightsError


class Fail(Exception):  # noqa: N818 - it is an outcome, and reads so where it is raised
    """Ends a command.  `message` is the problem, `fix` is what to do about it, `code` the exit code."""

    def __init__(self, message: str, *, fix: str = "", code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.code = code


def from_client(error: FournosError) -> Fail:
    """Returns the Fail for an error of the packages client and insight."""
    match error:
        case ApiError():
            return _of_the_server(error)
        case NotThereError() if error.message.startswith("namespaces "):
            fix = "name another namespace with -n or FOURNOS_NAMESPACE; kubectl get namespaces lists them"
            return Fail(error.message, fix=fix, code=Exit.NOT_FOUND)
        case NotThereError():
            return Fail(error.message, fix="list what there is: fournos list", code=Exit.NOT_FOUND)
        case NoLogError() | MissingError():
            code = Exit.NOT_FOUND
        case RightsError() | NoHistoryError():
            code = Exit.SERVER
        case WaitTimeout():
            code = Exit.TIMEOUT
        case EndedError():
            code = Exit.FINISHED
        case _:
            code = Exit.USAGE
    return Fail(error.message, fix=error.fix, code=code)


def _of_the_server(error: ApiError) -> Fail:
    """Returns the Fail for an error of the API server or of the connection to it."""
    match error:
        case NotAllowedError(status=0):
            return Fail(error.message, fix="name a kubeconfig with --kubeconfig FILE", code=Exit.SERVER)
        case NotAllowedError(status=401):
            return Fail(
                f"the API server does not accept the credentials: {error.message}",
                fix="log in again, or choose other credentials with --context or --kubeconfig",
                code=Exit.SERVER,
            )
        case NotAllowedError():
            return Fail(
                f"not allowed: {error.message}",
                fix="ask an administrator for this right, or choose another namespace with -n",
                code=Exit.SERVER,
            )
        case NotInstalledError():
            return Fail(
                f"the cluster does not know this kind of object: {error.message}",
                fix="install the CRDs (kubectl apply -f manifests/crd.yaml), or choose the right cluster "
                "with --context",
                code=Exit.SERVER,
            )
        case NameTakenError():
            return Fail(error.message, fix="choose another name, or use --generate-name")
        case RefusedError():
            return Fail(error.message, fix="correct the named fields and try again")
        case ConflictError():
            return Fail(error.message, fix="another client changed it meanwhile: try again", code=Exit.SERVER)
        case UnreachableError(cause=HistoryUnavailableError()):
            return Fail(error.message, fix=error.fix, code=Exit.SERVER)
        case UnreachableError(status=0):
            return Fail(
                f"no answer from the API server: {error.message}",
                fix="check the network and the address in the kubeconfig (--kubeconfig, --context)",
                code=Exit.SERVER,
            )
        case _:
            return Fail(f"the API server has a problem: {error.message}", fix="try again", code=Exit.SERVER)
