"""History: what stays of runs that are over, and what they measured."""
