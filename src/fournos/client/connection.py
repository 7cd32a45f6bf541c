"""The connection of a client: credentials, namespace, owner, and how objects are found by name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from fournos.client.errors import translated
from fournos.client.views import View, columns_of, html_table
from fournos.client.watches import Watches
from fournos.engine.kube.api import Api
from fournos.engine.kube.client import Client as HttpClient
from fournos.engine.kube.credentials import Credentials, in_cluster, load
from fournos.engine.kube.credentials import contexts as contexts
from fournos.engine.kube.errors import ConnectionLostError, ServerError
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.kube.transport import Backoff
from fournos.insight import source
from fournos.insight.jobs import named
from fournos.insight.values import frame

if TYPE_CHECKING:
    from fournos.client.history import AsyncHistory
    from fournos.engine.kube.probe import ClusterApi
    from fournos.insight.dispatch import Dial, ManagerCluster

V = TypeVar("V", bound=View)
W = TypeVar("W", bound=View)


class Handles(list[V]):
    """A list of handles."""

    def __init__(self, handles: Iterable[V] = (), *, paths: tuple[str, ...] = ()) -> None:
        super().__init__(handles)
        self.paths = paths
        """Paths of fields that `to_frame` shows without being asked, such as the axes of a matrix."""

    def mapped(self, face: Callable[[Any], W]) -> Handles[W]:
        """Returns the list with each handle replaced by `face` of it."""
        return Handles(map(face, self), paths=self.paths)

    def to_frame(self, *paths: str) -> Any:
        """Returns a pandas DataFrame with one row an object, as last read.

        `paths` are further columns, such as "hardware.gpuCount", "metadata.labels.team" or "status.message";
        a path without a root is one of the spec.  Raises FournosError if pandas is not installed.
        """
        return frame(_row(view, (*self.paths, *paths)) for view in self)

    def _repr_html_(self) -> str:
        """A table for notebooks.  All values come from the objects: they are untrusted and are escaped."""
        return html_table(self)


def _row(view: View, paths: Iterable[str]) -> dict[str, Any]:
    from fournos.insight.manifests import field_of

    return {**columns_of(view), **{path: field_of(view.raw, path) for path in paths}}


T = TypeVar("T")
PATIENCE: Final = 15.0
"""Seconds for which a read of the history is repeated while its store does not answer."""


async def repeated(
    call: Callable[[], Awaitable[T]],
    *,
    seconds: float,
    pause: float = 1.0,
    when: Callable[[ServerError | ConnectionLostError], bool] = lambda error: True,
) -> T:
    """Repeats a request that fails for now, with growing pauses; after these seconds its error is raised.

    An error for which `when` returns False is raised at once.
    """
    now = asyncio.get_running_loop().time
    until = now() + seconds
    backoff = Backoff(base=pause)
    while True:
        try:
            return await call()
        except (ServerError, ConnectionLostError) as error:
            wait = max(backoff.next(), getattr(error, "retry_after", None) or 0.0)
            if not when(error) or now() + wait > until:
                raise
        await asyncio.sleep(wait)


_QPS: Final = 1000
WORKER_TIMEOUT: Final = 10.0
"""The request timeout of other clusters, in seconds."""


@asynccontextmanager
async def dial(credentials: Credentials) -> AsyncIterator[ClusterApi]:
    """Connects to another cluster, such as a worker."""
    async with HttpClient(credentials, name="worker", timeout=WORKER_TIMEOUT) as client:
        yield client


class ClientConnection:
    """An open connection, its default namespace and owner, and its shared watches."""

    def __init__(
        self,
        *,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        namespace: str | None = None,
        owner: str | None = None,
        in_cluster: bool = False,
        credentials: Credentials | None = None,
        api: Api | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self._own: HttpClient | None = None
        self._asked = namespace
        default = "default"
        if api is None:
            found = credentials or _credentials(kubeconfig, context, inside=in_cluster)
            default = found.namespace
            api = self._own = HttpClient(found, name="client", qps=_QPS, burst=_QPS)
        self.api: Api = api
        self.watches = Watches(api)
        self.namespace: str = namespace or source.jobs_namespace() or default
        self.owner: str = source.owner() if owner is None else owner
        self.queue_name: str = source.local_queue()
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.dial: Dial = dial
        self._patience = patience
        self._has_history = True
        """False once the API server has answered that it has none."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection.  A connection that the caller passed as `api` stays open."""
        if self._own is not None:
            await self._own.close()

    @property
    def history(self) -> AsyncHistory:
        """The runs that are over or under way, with their results and artifacts, also when they are gone."""
        from fournos.client.history import AsyncHistory

        return AsyncHistory(self.api, self.namespace, patience=self._patience)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} namespace={self.namespace!r} owner={self.owner!r}>"

    # --- shared by the methods of all kinds ------------------------------------------------------------

    async def _found(
        self,
        resource: Resource,
        name: str,
        *,
        noun: str,
        namespace: str | None = None,
        command: str = "fournos list",
    ) -> Obj:
        """Returns the object of this name.  Raises MissingError, with similar names."""
        key = Key(namespace or self.namespace, name)
        return await named(self.api, resource, key, noun=noun, command=command)

    async def _listed(
        self,
        resource: Resource,
        *,
        selector: str = "",
        everywhere: bool = False,
        namespace: str | None = None,
    ) -> list[Obj]:
        where = "" if everywhere else namespace or self.namespace
        return (await self.api.list(resource, namespace=where, selector=selector)).items

    def _placed(self, body: dict[str, Any]) -> Obj:
        """Returns the manifest with its namespace.  Raises ManifestError if it contradicts the client's."""
        from fournos.insight.manifests import place

        place(body, asked=self._asked, otherwise=self.namespace, asker=("the client", "namespace="))
        return body


def manager_of(client: ClientConnection) -> ManagerCluster:
    """Returns the cluster of a client as MultiKueue's manager, to read what workers have."""
    from fournos.insight.dispatch import ManagerCluster

    return ManagerCluster(client.api, client.dial, client.now, source.kueue_namespace())


def by_phase(handles: Iterable[V], phase: str | Sequence[str]) -> Handles[V]:
    """Returns the handles of objects in one of the phases, whatever their case; all without a phase."""
    wanted = {one.lower() for one in ([phase] if isinstance(phase, str) else phase)}
    return Handles(one for one in handles if not wanted or one.phase.lower() in wanted)


def _credentials(kubeconfig: str | Path | None, context: str | None, *, inside: bool) -> Credentials:
    """Loads the credentials.  Raises NotAllowedError, whose `fix` names what to change."""
    with translated():
        return in_cluster() if inside else load(Path(kubeconfig) if kubeconfig else None, context)
