"""/metrics over HTTPS, for clients with the right to read it."""
