"""All pages and actions, in the order of the navigation."""

from __future__ import annotations

from typing import Final

from fournos.web.pages import cluster, fleet, jobs, queue, submit
from fournos.web.routes import Action, Page

PAGES: Final[tuple[Page, ...]] = (fleet.PAGE, cluster.PAGE, queue.PAGE, jobs.PAGE, submit.PAGE)
ACTIONS: Final[tuple[Action, ...]] = (*cluster.ACTIONS, *submit.ACTIONS)
WATCHED: Final = tuple(dict.fromkeys(kind for page in PAGES for kind in page.watched))
"""The kinds that the server watches."""
