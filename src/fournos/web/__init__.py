"""The page: what runs, what waits and why, what happened, and what changed."""
