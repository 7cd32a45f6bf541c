"""/metrics by https, for those with the right to read it."""
