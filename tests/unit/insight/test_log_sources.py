"""Which logs of a job are read in its phase."""

from __future__ import annotations

import pytest

from fournos.insight.failure import WantedLogs


@pytest.mark.parametrize(
    ("asked", "phase", "follow", "resolver", "tasks"),
    [
        (WantedLogs(), "Running", False, False, True),
        (WantedLogs(), "Pending", True, False, True),
        (WantedLogs(), "Resolving", False, True, False),
        (WantedLogs(), "Resolving", True, True, True),
        (WantedLogs(), None, False, True, False),
        (WantedLogs(resolver=True, tasks=False), "Resolving", True, True, False),
        (WantedLogs(resolver=True, tasks=False), "Running", True, True, False),
        (WantedLogs(task="run"), "Resolving", False, False, True),
        (WantedLogs(attempt=1), "Resolving", True, False, True),
    ],
)
def test_the_log_of_the_resolver_is_read_while_no_other_exists(
    asked: WantedLogs, phase: str | None, follow: bool, resolver: bool, tasks: bool
) -> None:
    job = {"metadata": {"name": "one"}, "status": {"phase": phase} if phase else {}}
    found = asked.in_phase_of(job, follow=follow)
    assert (found.resolver, found.tasks) == (resolver, tasks)
    assert (found.task, found.attempt) == (asked.task, asked.attempt)
