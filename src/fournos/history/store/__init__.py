"""The store of the history: SQLite or PostgreSQL behind one interface."""

from fournos.history.store.errors import (
    StoreError,
    StoreFullError,
    StoreQueryError,
    StoreUnavailableError,
    StoreUsageError,
)
from fournos.history.store.store import HistoryStore

__all__ = [
    "HistoryStore",
    "StoreError",
    "StoreFullError",
    "StoreQueryError",
    "StoreUnavailableError",
    "StoreUsageError",
]
