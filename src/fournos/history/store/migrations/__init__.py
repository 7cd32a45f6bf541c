"""The revisions of the history's tables.  A released revision never changes."""
