"""Examines a cluster and the caller's connection to it: what is missing, wrong or about to end, and the fix.

`facts.gather` reads everything once.  The checks are pure functions of those facts; `examine.examine` runs
all of them.
"""
