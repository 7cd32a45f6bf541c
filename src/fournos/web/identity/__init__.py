"""Who looks: logins, sessions, and the rights of a person."""
