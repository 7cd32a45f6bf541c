"""Estimates: when a waiting job will start and end, and how good such estimates have been."""
