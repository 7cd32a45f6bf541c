"""Access to API servers: credentials, client, watch-fed caches, errors.  Independent of our kinds."""
