"""One run as one file: all that the history has of it, for people without access to the cluster."""
