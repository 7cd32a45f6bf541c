"""The person of a request: logins, sessions and rights."""
