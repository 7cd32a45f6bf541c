"""How the commands of dev/ end when something fails: `devcluster.endings`, with the errors of the product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from devcluster import DevclusterError, endings
from devcluster.endings import Row, explained
from fournos.engine.kube.errors import KubeError
from fournos.insight.errors import FournosError

ROWS: Final[tuple[Row, ...]] = (
    (FournosError, lambda error: DevclusterError(error.message, hint=error.fix)),
    (KubeError, lambda error: DevclusterError(f"The API server of the cluster: {error.message}")),
    *endings.ROWS,
)


def run(command: Callable[[], int], *, go_on: str) -> int:
    """Returns the exit code of the command; after an error it prints the sentence, and `go_on`."""
    return endings.run(command, rows=ROWS, go_on=go_on)


@contextmanager
def evidence(of: Callable[[], str]) -> Iterator[None]:
    """Adds evidence to an error of the block, such as the last lines of the pods that it waits for."""
    try:
        yield
    except Exception as error:
        explanation = explained(error, ROWS)
        if explanation is None:
            raise
        parts = filter(None, (explanation.evidence, of()))
        text = "\n".join(parts)
        raise DevclusterError(explanation.message, hint=explanation.hint, evidence=text) from error
