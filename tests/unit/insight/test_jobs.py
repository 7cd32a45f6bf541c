"""Which job `@last` means."""

from __future__ import annotations

import pytest

from fournos.insight.errors import MissingError
from fournos.insight.jobs import last
from fournos.systems.jobs.names import CONFIRMS_LABEL
from fournos.systems.schedules.names import SCHEDULE_UID_LABEL
from tests.unit.cli.objects import NS, ago, job


def test_last_is_a_job_that_a_person_has_submitted() -> None:
    """`fournos delete @last` deletes it: the newest job may be one of a schedule, or a rerun."""
    mine = job("mine", created=ago(minutes=9))
    of_a_schedule = job("nightly", created=ago(minutes=1), labels={SCHEDULE_UID_LABEL: "u"})
    rerun = job("again", created=ago(minutes=1), labels={CONFIRMS_LABEL: "u"})
    assert last([mine, of_a_schedule, rerun], owner="", namespace=NS) is mine
    with pytest.raises(MissingError, match="no job in namespace"):
        last([of_a_schedule, rerun], owner="", namespace=NS)
