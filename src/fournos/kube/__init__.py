"""API servers: credentials, client, watch-fed caches, errors.  Knows no kind of ours."""
