"""From the release before to this one and back, with work under way."""
