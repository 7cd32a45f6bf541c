"""The database of the history: SQLite, or PostgreSQL."""
