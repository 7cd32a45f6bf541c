"""What is recorded of a job, and when it may be deleted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import Cause
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.kinds import RESOURCE_FLAVOR
from fournos.history.fingerprint import CLUSTER_CLASS_LABEL
from fournos.history.records import Document, Ending, Run
from fournos.systems.jobs.names import FINALIZER
from tests.unit.history.recorder.stories import KEY, TTL, Story, archived_in
from tests.unit.systems.jobs.actors import NS, Tekton, job, submit
from tests.world.harness import DISTURBED, DiedError
from tests.world.server import Server


async def test_a_job_is_recorded_from_its_creation_to_its_end() -> None:
    story = Story()
    life = await story.run()
    row, found = story.row, job(life.server)
    assert (row.phase, row.ending, row.attempts, row.target) == ("Succeeded", Ending.OBSERVED, 1, "cluster-1")
    assert row.identity.uid == found["metadata"]["uid"]
    assert (row.pipeline, row.project) == ("fournos-full", "llmd")
    assert row.started_at is not None and row.fingerprint
    documents = story.archive.documents[row.identity]
    assert set(documents) == {Document.OBJECT, Document.TASKS, Document.PROVENANCE, Document.QUOTA}
    assert documents[Document.QUOTA]["podSets"][0]["flavors"]["fournos/cluster-slot"] == "cluster-1"
    assert documents[Document.TASKS][0]["tasks"][0]["name"] == "run"
    images = documents[Document.PROVENANCE]["images"]
    assert images == {"run/step-main": {"imageID": "registry.test/bench@sha256:1"}}
    task = documents[Document.PROVENANCE]["tasks"]["run"]
    assert task["taskSpec"] == {"steps": [{"name": "main", "image": "bench"}]} and task["digest"]
    assert found["status"]["archivedAt"]


async def test_without_hearth_the_flavor_names_the_class_of_its_cluster() -> None:
    story = Story()
    begin = story.scenario.setup

    def labelled(server: Server) -> None:
        begin(server)
        labels = {"metadata": {"labels": {CLUSTER_CLASS_LABEL: "lab"}}}
        server.patch(RESOURCE_FLAVOR, Key("", "cluster-1"), labels)

    story.scenario = replace(story.scenario, setup=labelled)
    await story.run()
    recorded = story.archive.documents[story.row.identity][Document.PROVENANCE]["fingerprint"]
    assert recorded["cluster_class"] == "lab"


async def test_a_job_is_handed_over_after_its_finalizer_is_off_so_no_write_meets_a_conflict() -> None:
    life = await Story().run()
    lives = [change.object for change in life.server.history if change.resource == FOURNOS_JOB]
    handed_over = next(obj for obj in lives if (obj.get("status") or {}).get("archivedAt"))
    assert any(FINALIZER in obj["metadata"].get("finalizers", ()) for obj in lives)
    assert not handed_over["metadata"].get("finalizers")


async def test_another_look_at_everything_records_nothing() -> None:
    story = Story()
    life = await story.run()
    commits = len(story.archive.commits)
    life.process.wake_all()
    await life._quiet()
    assert len(story.archive.commits) == commits


RETURNED = """{"tests": [{"labels": {"model": "llama"}, "kpis": [{"kpi_id": "tput", "value": 7}]}]}"""


async def test_results_that_a_task_returns_are_recorded_with_the_end() -> None:
    story = Story(returns=(RETURNED,))
    life = await story.run()
    (record,) = story.archive.results[story.row.identity].values()
    assert (record.labels, record.kpis[0].value) == ({"model": "llama"}, 7.0)
    assert len(_ends(story)) == 1 and len(archived_in(life.server)) == 1
    assert Document.PROBLEMS not in story.archive.documents[story.row.identity]


async def test_results_of_nonsense_are_a_problem_of_the_run_and_fail_nothing() -> None:
    story = Story(returns=(RETURNED, "not: [json", "{" * 5000))
    life = await story.run()
    assert len(story.archive.results[story.row.identity]) == 1, "what is valid beside it is stored"
    problems = story.archive.documents[story.row.identity][Document.PROBLEMS]
    assert [one.split()[1] for one in problems] == ["task", "task", "pipeline:", "pipeline:"]
    assert job(life.server)["status"]["phase"] == "Succeeded" and archived_in(life.server)


async def test_results_of_an_earlier_attempt_do_not_count() -> None:
    story = Story(tekton=lambda: Tekton(fails={"job"}), spec={"retry": {"limit": 1}}, returns=(RETURNED,))
    await story.run()
    assert story.row.attempts == 2
    assert len(story.archive.results[story.row.identity]) == 1


STORIES = {
    "succeeds": Story,
    "returns results": partial(Story, returns=(RETURNED, "nonsense")),
    "fails": lambda **kwargs: Story(tekton=lambda: Tekton(fails={"job"}), **kwargs),
    "is retried": lambda **kwargs: Story(
        tekton=lambda: Tekton(fails={"job"}), spec={"retry": {"limit": 1}}, **kwargs
    ),
    "its logs are stored": lambda **kwargs: Story(logs=True, **kwargs),
    "the store is down at the end": lambda **kwargs: Story(down=(5.0, 600.0), spec={"ttl": None}, **kwargs),
}


@pytest.mark.parametrize("how", DISTURBED)
@pytest.mark.parametrize("name", STORIES)
async def test_every_disturbance_ends_alike(name: str, how: str) -> None:
    assert await DISTURBED[how](STORIES[name]().scenario) > 0


async def test_killed_between_commit_and_patch_the_job_is_archived_later() -> None:
    """In each place where the process can die, the end is committed once."""
    writes = len((await Story().run()).process.api.writes)
    between = 0
    for number in range(1, writes + 1):
        story, committed = Story(), list[int]()
        life = await story.run(before=partial(_die, story, number, committed))
        assert len(_ends(story)) == 1
        assert len(archived_in(life.server)) == 1
        between += committed == [1]
    assert between > 0, "no run died between the commit and the patch"


def _ends(story: Story) -> list[Any]:
    return [one for one in story.archive.commits if one.run.ended_at is not None]


def _die(story: Story, number: int, committed: list[int], current: int) -> None:
    if current == number:
        committed.append(len(_ends(story)))
        raise DiedError


async def test_a_store_that_is_down_for_ten_minutes_delays_the_deletion_by_no_more() -> None:
    story = Story(down=(5.0, TTL + 300.0), horizon=TTL + 2000)
    life = await story.run()
    assert life.server.find(FOURNOS_JOB, KEY) is None
    assert (story.row.phase, story.row.ending) == ("Succeeded", Ending.OBSERVED)
    assert len(archived_in(life.server)) == 1


async def test_a_store_that_never_answers_delays_the_deletion_to_the_deadline() -> None:
    story = Story(down=(0.0, 1e9), horizon=TTL + 2000, end=lambda server: None)
    life = await story.run()
    assert life.server.find(FOURNOS_JOB, KEY) is None
    assert story.archive.commits == [] and archived_in(life.server) == set()


async def test_a_running_job_is_not_disturbed_by_a_store_that_does_not_answer() -> None:
    story = Story(down=(0.0, 1e9), spec={"ttl": None}, end=lambda server: None)
    life = await story.run()
    assert job(life.server)["status"]["phase"] == "Succeeded"


def deleted(server: Server) -> None:
    server.delete(FOURNOS_JOB, KEY)


async def test_a_deletion_that_is_observed_closes_the_run() -> None:
    story = Story(tekton=lambda: Tekton(endless={"job"}), script=[deleted])
    await story.run()
    assert story.row.ending is Ending.DELETED or story.row.phase == "Stopped"
    assert story.row.ended_at is not None


async def test_what_was_deleted_while_the_recorder_was_down_is_closed() -> None:
    story = Story(tekton=lambda: Tekton(endless={"job"}))
    life = await story.run()
    assert story.row.ending is Ending.OPEN
    life.server.clock.advance(600)
    for found in life.server.list(FOURNOS_JOB):
        meta = {"metadata": {"finalizers": None}}
        life.server.patch(FOURNOS_JOB, Key(NS, found["metadata"]["name"]), meta)
    deleted(life.server)
    life.process = life._born()
    await life._quiet()
    assert story.row.ending is Ending.DELETED
    assert story.row.message.startswith("Deleted in phase Run")
    assert story.journal.every_key() == ()


async def test_a_name_that_is_used_again_is_another_run() -> None:
    def again(server: Server) -> None:
        submit(server)

    story = Story(spec={"ttl": None}, script=[deleted, again])
    await story.run()
    assert len(story.archive.runs) == 2
    assert {run.ending for run in story.archive.runs.values()} == {Ending.OBSERVED}


async def test_what_it_waited_for_last_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("INTERVAL", "DETAILS"):
        monkeypatch.setattr(f"fournos.history.recorder.decide.{pause}", timedelta())
    story = Story()
    await story.run()
    causes = [record.run.waited_for for record in story.archive.commits]
    assert causes[0] in ("Operator", "Resolver") and len(set(causes)) > 1
    assert story.row.waited_for == Cause.DISPATCH.value and story.row.started_at is not None
    assert story.row.queued_at is not None and story.row.admitted_at is not None


# --- reruns ---------------------------------------------------------------------------------------------

CONFIRM = {"confirm": {"repeats": 1}}


class Suspicious(Story):
    """A history that suspects the results of every job."""

    def __init__(self, *, suspects: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        begin = self.scenario.setup

        def suspicious(server: Server) -> None:
            begin(server)
            self.archive.suspects = suspects

        self.scenario = replace(self.scenario, setup=suspicious)


def statuses(server: Server) -> list[Any]:
    """The status of the job each time it changed."""
    seen = (one.object for one in server.history if one.resource == FOURNOS_JOB)
    return [one.get("status") or {} for one in seen if one["metadata"]["name"] == "job"]


async def test_a_suspected_regression_is_in_the_patch_that_archives_and_is_run_again() -> None:
    story = Suspicious(spec={**CONFIRM, "ttl": None})
    life = await story.run()
    first = next(one for one in statuses(life.server) if "archivedAt" in one or "suspectedAt" in one)
    assert first["suspectedAt"] == first["archivedAt"], "one write, and no more than without"
    (again,) = job(life.server)["status"]["reruns"]
    rerun = job(life.server, again)
    assert rerun["status"]["archivedAt"] and "suspectedAt" not in rerun["status"]
    assert story.archive.compared == [story_of("job", story).identity], "the rerun is not compared"
    assert (
        story_of(again, story).labels["fournos.dev/confirms"]
        == rerun["metadata"]["labels"]["fournos.dev/confirms"]
    )


async def test_what_is_not_suspected_is_archived_alone() -> None:
    story = Suspicious(suspects=False, spec=CONFIRM)
    life = await story.run()
    assert "suspectedAt" not in job(life.server)["status"]
    assert len(archived_in(life.server)) == 1
    assert len(story.archive.compared) == 1


async def test_a_job_without_confirm_is_not_compared() -> None:
    story = Suspicious()
    life = await story.run()
    assert story.archive.compared == []
    assert "suspectedAt" not in job(life.server)["status"]


@pytest.mark.parametrize("how", DISTURBED)
async def test_every_disturbance_of_a_comparison_ends_alike(how: str) -> None:
    story = Suspicious(suspects=False, spec={**CONFIRM, "ttl": None}, down=(5.0, 60.0))
    assert await DISTURBED[how](story.scenario) > 0


def story_of(name: str, story: Story) -> Run:
    (found,) = (run for run in story.archive.runs.values() if run.name == name)
    return found


async def test_a_lock_counts_from_its_admission_on() -> None:
    """It holds its cluster in the phase Admitted, and never runs."""
    story = Story(spec={"lockOnly": True, "cluster": "cluster-1", "executionEngine": None, "ttl": None})
    await story.run()
    assert (story.row.phase, story.row.pipeline, story.row.ending) == ("Admitted", "", Ending.OPEN)
    assert story.row.ran_from is not None and story.row.ran_from == story.row.admitted_at
