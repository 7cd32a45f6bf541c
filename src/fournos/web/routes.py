"""Pages and actions as data: the server serves them, the navigation and the tests list them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from multidict import MultiMapping

from fournos.engine.kube.resource import Resource
from fournos.web.viewer import Viewer
from fournos.web.written import Written

if TYPE_CHECKING:
    from fournos.web.site import Site


@dataclass(frozen=True, slots=True)
class Call:
    """A request of a person who is logged in."""

    site: Site
    viewer: Viewer
    now: datetime
    path: Mapping[str, str] = field(default_factory=dict)
    """The variables of the path."""
    query: MultiMapping[str] | Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page; `name` is its template and its module in `pages`."""

    name: str
    title: str
    """Variables of the path in braces."""
    path: str
    """As in aiohttp, with variables in braces."""
    gather: Callable[[Call], Awaitable[Mapping[str, Any]]]
    """Returns the data of the template.  Raises PageError, KubeError or FournosError."""
    watched: tuple[Resource, ...] = ()
    """An open tab shows changes of these kinds; empty: the page is as it was when it was loaded."""
    fresh: float = 30.0
    """Seconds after which an open tab shows what else has changed, such as in the history."""
    in_nav: bool = True
    under: str = ""
    """The path of the page whose entry of the navigation is marked, where that is not a prefix of `path`."""
    shared: bool = True
    """It shows persons with the same rights the same.  False if it reads with the person's credentials."""
    command: str = ""
    """The command line that shows the same, with variables of the path in braces.

    {jobs} is the option of the jobs' namespace, if the page is of one; {all_jobs} is -A otherwise.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A write: a form posts to it, and it answers with the page to go to."""

    name: str
    path: str
    act: Callable[[Call, Mapping[str, str]], Awaitable[Done | ShownPage]]
    """Called with the fields of the form.  Raises as `Page.gather` does."""


@dataclass(frozen=True, slots=True)
class Done:
    """What an action did."""

    location: str
    """The path of the page to go to."""
    notice: str
    """One sentence for the person."""
    wrote: Written | None = field(default=None, compare=False)
    """The page of `location` is loaded when the watched objects have this."""


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A form that is shown again with what was filled in: for a preview, or because it would be refused."""

    page: Page
    data: Mapping[str, Any]
    """The data of the page's template."""
    status: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A file that is sent in pieces."""

    name: str
    path: str
    open: Callable[[Call], Awaitable[Content]]
    """Raises as `Page.gather` does; so may the first piece."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a download sends.  Browsers do not interpret it: it is anybody's."""

    pieces: AsyncIterator[bytes]
    filename: str
    """A browser saves it under this name."""
