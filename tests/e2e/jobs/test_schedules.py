"""A schedule on a real cluster: its jobs run, whoever leads the operator when their time comes."""

from __future__ import annotations

import pytest

from tests.e2e.hub import MOCK_JOB, Hub
from tests.e2e.jobs.test_faults import leader, pods_of_operator
from tests.waiting import LIMIT

NAME = "minutely"
TIME_LABEL = "fournos.dev/schedule-time"


def jobs_of(hub: Hub) -> list[str]:
    jobs = hub.list("fournosjobs", selector=f"fournos.dev/schedule={NAME}")
    times = [job["metadata"]["labels"][TIME_LABEL] for job in jobs]
    assert len(set(times)) == len(times), "a time has two jobs"
    return [job["metadata"]["name"] for job in jobs]


@pytest.mark.timeout(600)
def test_the_leader_is_killed_when_a_time_has_come(hub: Hub, operator_in_cluster: None) -> None:
    hub.apply(
        {
            "apiVersion": "fournos.dev/v1",
            "kind": "FournosSchedule",
            "metadata": {"name": NAME},
            "spec": {"schedules": ["* * * * *"], "timeZone": "Etc/UTC", "jobTemplate": {"spec": MOCK_JOB}},
        }
    )

    def status() -> dict[str, object]:
        return dict(hub.get("fournosschedule", NAME).get("status") or {})

    hub.until(lambda: status().get("active"), lambda: f"no fire is taken up: {status()}", timeout=60 + LIMIT)
    killed = {leader(hub)} & set(pods_of_operator(hub))
    hub.operator.run("delete", "pod", *killed, "--grace-period=0", "--force", "--wait=false")
    first = hub.until(lambda: jobs_of(hub), lambda: f"no job: {status()}")[0]
    assert hub.wait(first)["phase"] == "Succeeded"
    hub.until(lambda: status().get("lastFire"), lambda: f"its end is not noted: {status()}")
    second = hub.until(
        lambda: [*{*jobs_of(hub)} - {first}], lambda: f"no second: {status()}", timeout=60 + LIMIT
    )
    hub.run("delete", "fournosschedule", NAME)
    assert hub.wait(second[0])["phase"] == "Succeeded", "what runs goes on"
    assert set(jobs_of(hub)) == {first, *second}
