"""The history as commands read it."""

from __future__ import annotations

from typing import cast

from fournos.cli.command import Session
from fournos.client.history import AsyncHistory, Server


def history_of(session: Session) -> AsyncHistory:
    """Returns the history of the session's cluster, for its namespace."""
    return AsyncHistory(cast(Server, session.api), session.namespace)
