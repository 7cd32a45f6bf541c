"""The error that ends a command."""

from __future__ import annotations

from enum import IntEnum

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


class Exit(IntEnum):
    """The exit codes.  `--help` and the reference page list them from here."""

    OK = 0
    FAILED = 1
    USAGE = 2
    STOPPED = 3
    TIMEOUT = 4
    NOT_FOUND = 5
    SERVER = 6
    FINISHED = 7
    BUG = 70
    INTERRUPTED = 130


MEANINGS: dict[Exit, str] = {
    Exit.OK: "done; for watch and wait: the job succeeded",
    Exit.FAILED: "the job failed; compare, trend, benchmarks --fail-on: a KPI is worse; "
    "results push --check: a file is not valid; doctor: a check failed",
    Exit.USAGE: "wrong usage, or a manifest that was refused",
    Exit.STOPPED: "the job was stopped",
    Exit.TIMEOUT: "the time limit passed first",
    Exit.NOT_FOUND: "no such job, or what was asked for is gone",
    Exit.SERVER: "the API server cannot be reached, or does not allow it",
    Exit.FINISHED: "stop: the job had ended before",
    Exit.BUG: "a fault of fournos itself",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
}


class Fail(Exception):  # noqa: N818 - it is an outcome, and reads so where it is raised
    """Ends a command.  `message` is the problem, `fix` is what to do about it, `code` the exit code."""

    def __init__(self, message: str, *, fix: str = "", code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.code = code


def from_client(error: FournosError) -> Fail:
    """Returns the Fail for an error of the packages client and insight."""
    message, fix = error.message, error.fix
    code = Exit.SERVER if isinstance(error, ApiError) else Exit.USAGE
    match error:
        # of the API server, or of the connection to it
        case NotAllowedError(status=0):
            fix = "name a kubeconfig with --kubeconfig FILE"
        case NotAllowedError(status=401):
            message = f"the API server does not accept the credentials: {message}"
            fix = "log in again, or choose other credentials with --context or --kubeconfig"
        case NotAllowedError():
            message = f"not allowed: {message}"
            fix = "ask an administrator for this right, or choose another namespace with -n"
        case NotInstalledError():
            message = f"the cluster does not know this kind of object: {message}"
            fix = (
                "install the CRDs (kubectl apply -f manifests/crd.yaml), or choose the right cluster "
                "with --context"
            )
        case NameTakenError():
            fix, code = "choose another name, or use --generate-name", Exit.USAGE
        case RefusedError():
            code = Exit.USAGE
        case ConflictError():
            fix = "another client changed it meanwhile: try again"
        case UnreachableError(cause=HistoryUnavailableError()):
            pass
        case UnreachableError(status=0):
            message = f"no answer from the API server: {message}"
            fix = "check the network and the address in the kubeconfig (--kubeconfig, --context)"
        case ApiError():
            message, fix = f"the API server has a problem: {message}", "try again"
        # of what was asked for
        case NotThereError() if message.startswith("namespaces "):
            fix = "name another namespace with -n or FOURNOS_NAMESPACE; kubectl get namespaces lists them"
            code = Exit.NOT_FOUND
        case NotThereError():
            fix, code = "list what there is: fournos list", Exit.NOT_FOUND
        case NoLogError() | MissingError():
            code = Exit.NOT_FOUND
        case RightsError() | NoHistoryError():
            code = Exit.SERVER
        case WaitTimeout():
            code = Exit.TIMEOUT
        case EndedError():
            code = Exit.FINISHED
    return Fail(message, fix=fix, code=code)
