"""The revisions of the history's tables."""
