"""Which logs of a job are read in its phase."""

from __future__ import annotations

import pytest

from fournos.insight.log_sources import Wanted


@pytest.mark.parametrize(
    ("asked", "phase", "follow", "resolver", "tasks"),
    [
        (Wanted(), "Running", False, False, True),
        (Wanted(), "Pending", True, False, True),
        (Wanted(), "Resolving", False, True, False),
        (Wanted(), "Resolving", True, True, True),
        (Wanted(), None, False, True, False),
        (Wanted(resolver=True, tasks=False), "Resolving", True, True, False),
        (Wanted(resolver=True, tasks=False), "Running", True, True, False),
        (Wanted(task="run"), "Resolving", False, False, True),
        (Wanted(attempt=1), "Resolving", True, False, True),
    ],
)
def test_the_log_of_the_resolver_is_read_while_no_other_exists(
    asked: Wanted, phase: str | None, follow: bool, resolver: bool, tasks: bool
) -> None:
    job = {"metadata": {"name": "one"}, "status": {"phase": phase} if phase else {}}
    found = asked.in_phase_of(job, follow=follow)
    assert (found.resolver, found.tasks) == (resolver, tasks)
    assert (found.task, found.attempt) == (asked.task, asked.attempt)
