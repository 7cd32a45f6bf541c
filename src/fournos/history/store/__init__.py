"""The store of the history: SQLite or PostgreSQL behind one interface."""

from fournos.history.store.errors import (
    NamespaceFullError,
    StoreError,
    StoreFullError,
    StoreQueryError,
    StoreUnavailableError,
    StoreUsageError,
)
from fournos.history.store.store import HistoryStore

__all__ = [
    "HistoryStore",
    "NamespaceFullError",
    "StoreError",
    "StoreFullError",
    "StoreQueryError",
    "StoreUnavailableError",
    "StoreUsageError",
]
