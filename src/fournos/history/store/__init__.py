"""The store of the history: SQLite or PostgreSQL behind one interface."""

from fournos.history.store.database import (
    NamespaceFullError,
    StoreError,
    StoreFullError,
    StoreQueryError,
    StoreUnavailableError,
    StoreUsageError,
)
from fournos.history.store.runs import HistoryStore

__all__ = [
    "HistoryStore",
    "NamespaceFullError",
    "StoreError",
    "StoreFullError",
    "StoreQueryError",
    "StoreUnavailableError",
    "StoreUsageError",
]
