"""The ends of a job, its hand-over to the history and its reruns, as tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.api.conditions import condition
from fournos.engine.api.values import format_time
from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.kube.resource import JOB, POD, SECRET, Key, Obj, key_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Delete,
    EventRecord,
    LiveGet,
    LogTail,
    Patch,
    Present,
    Question,
    SecretFacts,
    SecretShape,
    Step,
    Unknown,
)
from fournos.systems.jobs import names
from fournos.systems.jobs.names import (
    CONFIRMS_LABEL,
    MAX_NAME,
    RERUN_OF_ANNOTATION,
    RERUNS_CREATED,
    rerun_name,
)
from fournos.systems.jobs.part import jobs_controller
from fournos.systems.jobs.rules import check_manifest
from fournos.systems.jobs.settings import JobSettings
from fournos.systems.jobs.status import StatusDraft
from tests.unit.systems.jobs.actors import (
    NS,
    SETTINGS,
    TEMPLATE,
    Kueue,
    Resolver,
    Tekton,
    environment,
    job,
    submit,
)
from tests.unit.systems.jobs.passes import (
    FAILED,
    GOING,
    GONE,
    KEY,
    NOW,
    PODS,
    RUN,
    SUCCEEDED,
    a_job,
    a_pod,
    a_run,
    a_workload,
    ago,
    condition_of,
    decided,
    true,
    written,
)
from tests.world.harness import DISTURBED, Run, Scenario, run
from tests.world.server import Server, VirtualClock

# --- a run that ends -----------------------------------------------------------------------------------


GONE_RUN = "PipelineRun not found"
WELL = "Pipeline completed successfully"
SILENT_SUCCESS = {**SUCCEEDED, "status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}
SILENT_FAILURE = a_run({"type": "Succeeded", "status": "False"}, completionTime=ago(5))


@pytest.mark.parametrize(
    ("run", "phase", "message", "shown"),
    [
        (SUCCEEDED, "Succeeded", WELL, "Tasks Completed: 3"),
        (SILENT_SUCCESS, "Succeeded", WELL, WELL),
        (FAILED, "Failed", "exit code 1", "exit code 1"),
        (SILENT_FAILURE, "Failed", "PipelineRun failed", "PipelineRun failed"),
        (None, "Failed", GONE_RUN, GONE_RUN),
    ],
    ids=["well", "well, silent", "badly", "badly, silent", "gone"],
)
def test_the_end_of_a_run_ends_the_job_and_gives_its_quota_back(
    run: Any, phase: str, message: str, shown: str
) -> None:
    found = decided(a_job("Running"), workloads=(a_workload(),), runs=(run,) if run else ())
    well, reason = phase == "Succeeded", phase if run else "NotFound"
    assert found.steps == (GONE,)
    assert written(found, "phase", "message", "pipelineRun") == (phase, message, "job" if run else None)
    assert condition_of(found, "PipelineRunReady") == (str(well), reason, shown)
    assert found.events == (EventRecord("Normal" if well else "Warning", phase, message),)
    (attempts,) = written(found, "attempts")
    assert (attempts[-1]["outcome"], attempts[-1]["finishedAt"]) == (phase, ago(0))
    assert attempts[-1].get("message") == (None if well else message)


@pytest.mark.parametrize(("known", "began"), [({}, 300), ({"phaseTimes": {"running": ago(299)}}, 299)])
def test_the_time_at_which_running_was_seen_is_kept(known: Any, began: int) -> None:
    found = decided(a_job("Running", status=known), workloads=(a_workload(),), runs=(SUCCEEDED,))
    assert written(found, "phaseTimes") == ({"running": ago(began), "finished": ago(0)},)


def test_a_failed_run_has_ended_only_with_its_completion_time() -> None:
    """Until then Tekton is still stopping what it has started."""
    ending = a_run({"type": "Succeeded", "status": "False", "message": "exit code 1"})
    found = decided(a_job("Running"), workloads=(a_workload(),), runs=(ending,))
    assert found.steps == () and written(found, "phase") == ("Running",)


def test_a_failed_run_keeps_its_quota_until_its_pods_have_ended() -> None:
    def after(seconds: float) -> Any:
        run = a_run({"type": "Succeeded", "status": "False"}, completionTime=ago(seconds))
        answers: dict[Any, Answer] = {PODS: Present((a_pod(),))}
        return decided(a_job("Running"), workloads=(a_workload(),), runs=(run,), answers=answers)

    waits = after(SETTINGS.terminate_grace_sec - 1)
    assert waits.steps == () and waits.retry and waits.wake_at == NOW + timedelta(seconds=1)
    text = "PipelineRun failed, waiting for 1 pod(s) to end: pod"
    assert written(waits, "phase", "message") == ("Running", text)
    forced = after(SETTINGS.terminate_grace_sec)
    assert [(type(one), one.resource) for one in forced.steps] == [(Delete, POD)] and forced.retry


# --- a run that is gone --------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [Unknown("timeout"), Absent(no_kind=True)], ids=["unknown", "no kind"])
def test_a_run_that_cannot_be_read_is_not_gone(answer: Answer) -> None:
    message = "Waiting: cannot read the PipelineRun"
    found = decided(a_job("Running"), workloads=(a_workload(),), answers={RUN: answer})
    assert found.steps == () and found.retry
    assert written(found, "phase", "message") == ("Running", message)
    assert condition_of(found, "PipelineRunReady") == ("False", "PipelineRunUnknown", message)


def test_a_run_that_only_the_cache_misses_changes_nothing() -> None:
    found = decided(a_job("Running"), workloads=(a_workload(),), answers={RUN: Present(a_run())})
    assert found.steps == () and found.retry and found.status is None


def test_the_pods_of_a_run_that_is_gone_hold_the_quota() -> None:
    answers: dict[Any, Answer] = {PODS: Present((a_pod(),))}
    found = decided(a_job("Running"), workloads=(a_workload(),), answers=answers)
    assert found.steps == () and found.retry
    text = "PipelineRun not found, waiting for 1 pod(s) to end: pod"
    assert written(found, "phase", "message") == ("Running", text)


# --- another attempt -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("earlier", "retry", "delay"),
    [
        ([], {"limit": 1}, SETTINGS.retry_backoff_sec),
        ([], {"limit": 1, "backoff": "1m"}, 60),
        (["Failed"], {"limit": 2, "backoff": "1m"}, 120),
        (["Failed", "Failed"], {"limit": 3, "backoff": "1m"}, 240),
        (["Evicted", "Failed", "Lost"], {"limit": 2, "backoff": "1m"}, 120),
        (["Failed"], {"limit": 1}, None),
        ([], {"limit": 0}, None),
        ([], None, None),
    ],
    ids=["default", "its own", "second", "third", "evictions", "no more", "none allowed", "none asked"],
)
def test_a_failed_attempt_is_tried_again_after_a_time_that_doubles(
    earlier: list[str], retry: Any, delay: float | None
) -> None:
    entries = [{"number": number, "outcome": outcome} for number, outcome in enumerate(earlier, 1)]
    number = len(earlier) + 1
    name = names.attempt_name("job", number)
    last = {"number": number, "cluster": "cluster-1", "workload": name, "pipelineRun": name}
    status = {"attempt": number, "attempts": [*entries, last]}
    job = a_job("Running", status=status, retry=retry)
    run = {**FAILED, "metadata": {**FAILED["metadata"], "name": name}}
    pods: dict[Any, Answer] = {PODS: Absent()}
    pods |= {type(PODS)(POD, NS, f"tekton.dev/pipelineRun={name}"): Absent()}
    found = decided(job, workloads=(a_workload(name=name),), runs=(run,), answers=pods)
    assert found.steps == (Delete(WORKLOAD, Key(NS, name), f"w-{name}"),)
    if delay is None:
        assert written(found, "phase", "retryAt") == ("Failed", None) and found.wake_at is None
        return
    at = NOW + timedelta(seconds=delay)
    limit, failed = retry["limit"], 1 + earlier.count("Failed")
    shown = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    text = f"Attempt {number} failed: exit code 1. Retry {failed} of {limit} at {shown}"
    assert written(found, "phase", "message", "retryAt", "cluster") == ("Pending", text, shown, None)
    assert found.wake_at == at and found.events == (EventRecord("Warning", "Retrying", text),)


def test_a_job_of_a_manager_cluster_is_tried_again_there() -> None:
    """Its only Workload is the manager's, which is finished after the job, and never deleted here."""
    job = a_job(
        "Running", meta={"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "job"}}, retry={"limit": 3}
    )
    gone: dict[Question, Answer] = {LiveGet(PIPELINE_RUN, Key(NS, "job")): Absent()}
    found = decided(job, workloads=(a_workload(),), runs=(FAILED,), prebuilt=a_workload(), answers=gone)
    assert found.steps == () and written(found, "phase") == ("Failed",)


# --- what goes with the run ----------------------------------------------------------------------------

KEPT_FOR_THE_RUN = SETTINGS.model_copy(update={"secrets_kept": "run"})


def copied(name: str, owner: str = "u1") -> tuple[SecretShape, Answer]:
    key = Key(NS, name)
    return SecretShape(key), Present(SecretFacts(f"s-{name}", frozenset({owner}), {}, ()))


@pytest.mark.parametrize(
    ("spec", "answers", "expected"),
    [
        (
            {"secretRefs": ["creds"]},
            [copied("job-vault-creds"), copied("job-kubeconfig")],
            ["job-vault-creds", "job-kubeconfig"],
        ),
        ({"secretRefs": ["creds"]}, [copied("job-vault-creds", "u0"), copied("job-kubeconfig", "u0")], []),
        ({}, [(SecretShape(Key(NS, "job-kubeconfig")), Absent())], []),
        ({}, [(SecretShape(Key(NS, "job-kubeconfig")), Unknown("timeout"))], []),
    ],
    ids=["ours", "of another owner", "gone", "unknown"],
)
def test_copies_of_secrets_go_with_the_run_if_they_are_ours(
    spec: Any, answers: list[tuple[Any, Answer]], expected: list[str]
) -> None:
    found = decided(
        a_job("Running", **spec),
        workloads=(a_workload(),),
        runs=(SUCCEEDED,),
        answers=dict(answers),
        settings=KEPT_FOR_THE_RUN,
    )
    copies = tuple(Delete(SECRET, Key(NS, name), f"s-{name}") for name in expected)
    assert found.steps == (GONE, *copies)


def test_a_clusterless_job_has_no_copy_of_a_kubeconfig() -> None:
    job = a_job("Running", cluster=None, clusterless=True)
    found = decided(job, runs=(SUCCEEDED,), settings=KEPT_FOR_THE_RUN)
    assert found.steps == () and written(found, "phase") == ("Succeeded",)


# --- after the end -------------------------------------------------------------------------------------


def ended(finished: float = 60, *, meta: Any = None, **spec: Any) -> Obj:
    status = {"phaseTimes": {"finished": ago(finished)}, "attempt": 1}
    return a_job("Succeeded", meta=meta, status=status, **spec)


def resolve_job(*conditions: str) -> Obj:
    found = [{"type": one, "status": "True"} for one in conditions]
    meta = {"name": "job-resolve", "namespace": NS, "uid": "res"}
    return {"metadata": meta, "status": {"conditions": found}}


@pytest.mark.parametrize(
    ("workloads", "resolve_jobs", "expected"),
    [
        ((), (), ()),
        (
            (a_workload(), a_workload(name="job-r2")),
            (),
            (GONE, Delete(WORKLOAD, Key(NS, "job-r2"), "w-job-r2")),
        ),
        ((), (resolve_job(),), (Delete(JOB, Key(NS, "job-resolve"), "res"),)),
        ((), (resolve_job("Complete"),), ()),
        ((), (resolve_job("Failed"),), ()),
    ],
    ids=["nothing", "Workloads", "a resolve Job", "a complete one", "a failed one"],
)
def test_what_an_ended_job_leaves_behind_goes(
    workloads: tuple[Obj, ...], resolve_jobs: tuple[Obj, ...], expected: tuple[Step, ...]
) -> None:
    found = decided(ended(), workloads=workloads, resolve_jobs=resolve_jobs)
    assert found.steps == expected and found.status is None
    assert found.settled is bool(expected), "the deletions are events"


def test_after_its_end_a_job_runs_again_for_what_has_no_event() -> None:
    past = decided(ended(24 * 3600, ttl="1d"), workloads=(a_workload(),))
    assert not past.settled, "its own deletion comes next"
    waits = [{"type": names.RERUNS_CREATED, "status": "Unknown", "reason": "Pending"}]
    status = {"phaseTimes": {"finished": ago(60)}, "attempt": 1, "conditions": waits}
    assert not decided(a_job("Succeeded", status=status), workloads=(a_workload(),)).settled


def test_the_finalizer_goes_after_the_end() -> None:
    (step,) = decided(ended(meta={"finalizers": [names.FINALIZER, "other"]})).steps
    assert isinstance(step, Patch) and (step.resource, step.key) == (FOURNOS_JOB, KEY)
    assert step.body["metadata"]["finalizers"] == ["other"]


def test_a_finished_job_goes_after_its_time_to_live() -> None:
    day = 24 * 3600
    waits = decided(ended(day - 1, ttl="1d"))
    assert waits.steps == () and waits.wake_at == NOW + timedelta(seconds=1)
    due = decided(ended(day, ttl="1d"))
    assert due.steps == (Delete(FOURNOS_JOB, KEY, "u1"),) and due.wake_at is None
    forever = decided(ended(day))
    assert forever.steps == () and forever.wake_at is None


def test_a_copy_on_a_worker_stays_until_its_manager_takes_it() -> None:
    labels = {"kueue.x-k8s.io/multikueue-origin": "multikueue"}
    found = decided(ended(3 * 24 * 3600, ttl="1d", meta={"labels": labels}))
    assert found.steps == () and found.wake_at is None


@pytest.mark.parametrize("done", [False, True])
def test_the_time_to_live_of_a_dispatched_job_counts_where_it_was_made(done: bool) -> None:
    queued = a_workload(true("Finished")) if done else a_workload()
    found = decided(ended(24 * 3600, ttl="1d", managedBy="kueue.x-k8s.io/multikueue"), workloads=(queued,))
    assert (Delete(FOURNOS_JOB, KEY, "u1") in found.steps) is done


def test_a_job_goes_after_all_that_it_has_left_behind() -> None:
    found = decided(ended(24 * 3600, ttl="1d"), workloads=(a_workload(),))
    assert found.steps == (GONE,) and found.wake_at is None
    early = decided(ended(60, ttl="2m"), workloads=(a_workload(),))
    assert early.steps == (GONE,) and early.wake_at == NOW + timedelta(seconds=60)


def test_the_workload_of_a_manager_is_finished_after_the_job_and_not_deleted() -> None:
    labels = {"kueue.x-k8s.io/prebuilt-workload-name": "job"}
    job = {**ended(meta={"labels": labels})}
    (step,) = decided(job, workloads=(a_workload(),), prebuilt=a_workload()).steps
    assert isinstance(step, Patch) and (step.resource, step.subresource) == (WORKLOAD, "status")
    assert [one["type"] for one in step.body["status"]["conditions"]][-1] == "Finished"


def test_a_run_of_another_attempt_ends_nothing() -> None:
    stale = {**SUCCEEDED, "metadata": {**SUCCEEDED["metadata"], "name": "job-r2"}}
    found = decided(a_job("Running"), workloads=(a_workload(),), runs=(stale, a_run()))
    assert found.steps == () and written(found, "phase") == ("Running",)


# --- archive -------------------------------------------------------------------------------------------
# The hand-over of an ended job to the history: what TTL deletion waits for, and for how long.

JOB_KEY = Key(NS, "job")
TTL = 1800.0


def recorder(*, after: float) -> Callable[[Server], None]:
    """Archives ended jobs so many seconds of the world after their end."""

    def act(server: Server) -> None:
        for found in server.list(FOURNOS_JOB):
            status = found.get("status") or {}
            ended = (status.get("phaseTimes") or {}).get("finished")
            if ended and "archivedAt" not in status and server.clock.monotonic() >= after:
                body = {"status": {"archivedAt": format_time(server.clock.now())}}
                server.patch(FOURNOS_JOB, key_of(found), body, subresource="status")

    return act


def archived_scenario(*actors: Callable[[Server], None], enabled: bool = True, **kwargs: Any) -> Scenario:
    def begin(server: Server) -> None:
        environment(server)
        submit(server, ttl="30m")

    settings = JobSettings(namespace=NS, history_enabled=enabled)
    return Scenario(
        jobs_controller(settings, TEMPLATE), begin, actors, cast=(Resolver, Kueue, Tekton), **kwargs
    )


async def test_without_a_history_nothing_changes() -> None:
    """The default: no wait, and no write more than before."""
    assert JobSettings(namespace=NS).history_enabled is False
    gone = await run(archived_scenario(enabled=False, horizon=TTL + 100))
    assert gone.server.find(FOURNOS_JOB, JOB_KEY) is None


async def test_an_archived_job_is_deleted_at_its_ttl() -> None:
    waiting = await run(archived_scenario(recorder(after=0), horizon=TTL - 100))
    gone = await run(archived_scenario(recorder(after=0), horizon=TTL + 100))
    assert gone.server.find(FOURNOS_JOB, JOB_KEY) is None
    assert len(gone.process.api.writes) == len(waiting.process.api.writes) + 1, "no write but the deletion"


async def test_a_job_that_is_not_archived_is_deleted_at_the_deadline_and_shows_it() -> None:
    assert JobSettings(namespace=NS).archive_deadline_sec == 600
    done = await run(archived_scenario(horizon=TTL + 700))
    assert done.server.find(FOURNOS_JOB, JOB_KEY) is None
    assert TTL + 600 <= done.server.clock.monotonic() < TTL + 610
    at_the_end = decided(
        ended(24 * 3600 + 601, ttl="1d"), settings=JobSettings(namespace=NS, history_enabled=True)
    )
    (event,) = at_the_end.events
    assert (event.type, event.reason) == ("Warning", "NotArchived") and "600 s" in event.message


async def test_a_late_archive_ends_the_wait_at_once() -> None:
    late = recorder(after=TTL + 300)

    def knock(server: Server) -> None:
        server.clock.advance(max(0.0, TTL + 300 - server.clock.monotonic()))

    done = await run(archived_scenario(late, script=[knock], horizon=TTL + 100))
    assert done.server.find(FOURNOS_JOB, JOB_KEY) is None
    assert TTL + 300 <= done.server.clock.monotonic() < TTL + 600


@pytest.mark.parametrize("how", DISTURBED)
@pytest.mark.parametrize("actors", [(), (recorder(after=0),)], ids=["never archived", "archived"])
async def test_every_disturbance_ends_alike(how: str, actors: tuple[Any, ...]) -> None:
    assert await DISTURBED[how](archived_scenario(*actors, horizon=TTL + 4000)) > 0


def test_a_phase_that_is_entered_anew_is_not_archived() -> None:
    status = {"phase": "Failed", "archivedAt": "2030-01-01T00:00:00Z"}
    draft = StatusDraft({"metadata": {"name": "job"}, "status": status}, VirtualClock().now())
    assert "archivedAt" in draft.enter("Failed", "again").render()
    assert "archivedAt" not in draft.enter("Running", "a forged end was corrected").render()


# --- confirm -------------------------------------------------------------------------------------------
# Reruns of a suspected regression: made by the operator, once each, as the same job.


def historian(*, suspects: bool = True, forges: bool = False) -> Callable[[Server], None]:
    """Archives ended jobs, and suspects the results of those that are to be compared.

    `forges`: those of all jobs, as nobody but the recorder may.
    """

    def act(server: Server) -> None:
        for found in server.list(FOURNOS_JOB):
            status = found.get("status") or {}
            if not (status.get("phaseTimes") or {}).get("finished") or "archivedAt" in status:
                continue
            wrote = {"archivedAt": format_time(server.clock.now())}
            awaited = (condition(found, RERUNS_CREATED) or {}).get("status") == "Unknown"
            if suspects and (awaited or forges):
                wrote["suspectedAt"] = wrote["archivedAt"]
            server.patch(FOURNOS_JOB, key_of(found), {"status": wrote}, subresource="status")

    return act


def with_reruns(
    *,
    spec: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
    actor: Callable[[Server], None] | None = None,
    tekton: Callable[[], Any] = Tekton,
    refuse: Callable[..., None] | None = None,
    script: Any = (),
    **settings: Any,
) -> Scenario:
    def begin(server: Server) -> None:
        environment(server)
        submit(server, **{"owner": "me", "confirm": {"repeats": 2}, **(spec or {})})
        if labels:
            server.patch(FOURNOS_JOB, Key(NS, "job"), {"metadata": {"labels": labels}})
        if refuse is not None:
            server.refusals.append(refuse)

    found = JobSettings(namespace=NS, **{"history_enabled": True, **settings})
    return Scenario(
        jobs_controller(found, TEMPLATE),
        begin,
        (actor or historian(),),
        script,
        cast=(Resolver, Kueue, tekton),
        invariants=(no_more_than_asked_for,),
        end=end,
    )


def reruns(server: Server) -> list[Any]:
    return [one for one in server.list(FOURNOS_JOB) if one["metadata"]["name"] != "job"]


def created(server: Server) -> list[str]:
    """The names of all jobs that ever were created."""
    seen = [
        one.object["metadata"]
        for one in server.history
        if one.resource == FOURNOS_JOB and one.type == "ADDED"
    ]
    return sorted(str(one["name"]) for one in seen)


def no_more_than_asked_for(server: Server) -> None:
    names = created(server)
    assert len(names) == len(set(names)), "created twice"
    assert len(names) <= 1 + 5


def end(server: Server) -> Any:
    return [
        (
            one["metadata"]["name"],
            one["metadata"].get("labels"),
            one["spec"],
            one["status"]["phase"],
            one["status"].get("reruns"),
            (condition(one, RERUNS_CREATED) or {}).get("reason"),
        )
        for one in server.list(FOURNOS_JOB)
    ]


def reason(found: Run) -> str:
    return str((condition(job(found.server), RERUNS_CREATED) or {}).get("reason") or "")


async def test_a_suspected_regression_is_measured_again() -> None:
    found = await run(with_reruns())
    first, second = reruns(found.server)
    original = job(found.server)
    assert original["status"]["reruns"] == [first["metadata"]["name"], second["metadata"]["name"]]
    assert reason(found) == "Created"
    for one in (first, second):
        assert one["metadata"]["labels"][CONFIRMS_LABEL] == original["metadata"]["uid"]
        assert one["metadata"]["annotations"] == {RERUN_OF_ANNOTATION: "job"}
        assert one["metadata"]["namespace"] == NS
        assert "ownerReferences" not in one["metadata"], "deleting the job must not delete them"
        assert one["status"]["phase"] == "Succeeded"
        assert one["spec"] == {**original["spec"], "confirm": {"repeats": 0}}
        assert condition(one, RERUNS_CREATED) is None, "a rerun asks for none"
        assert check_manifest({**one, "status": {}}) == []


async def test_on_the_same_cluster_and_hardware_without_priority() -> None:
    wanted = {
        "exclusive": False,
        "cluster": None,
        "priority": "nightly",
        "env": {"A": "b"},
        "retry": {"limit": 1},
        "ttl": "7d",
    }
    hardware = {"gpuType": "a100", "gpuCount": 2}
    one = with_reruns(spec=wanted, labels={"team": "x", "kueue.x-k8s.io/queue-name": "other"})
    found = await run(replace(one, cast=(lambda: Resolver(writes={"hardware": hardware}), Kueue, Tekton)))
    first, _ = reruns(found.server)
    spec = first["spec"]
    assert (spec["cluster"], spec["hardware"]) == (job(found.server)["status"]["cluster"], hardware)
    assert "priority" not in spec
    assert (spec["owner"], spec["env"], spec["ttl"], spec["exclusive"]) == ("me", {"A": "b"}, "7d", False)
    assert set(first["metadata"]["labels"]) == {"team", CONFIRMS_LABEL}


async def test_the_priority_of_reruns() -> None:
    found = await run(with_reruns(confirm_priority="nightly"))
    assert [one["spec"]["priority"] for one in reruns(found.server)] == ["nightly"] * 2


async def test_the_default_number_of_reruns() -> None:
    assert JobSettings(namespace=NS).confirm_repeats == 0
    found = await run(with_reruns(spec={"confirm": None}, confirm_repeats=3))
    assert len(reruns(found.server)) == 3
    none = await run(with_reruns(spec={"confirm": {"repeats": 0}}, confirm_repeats=3))
    assert reruns(none.server) == []


NOTHING: dict[str, Any] = {
    "confirm is not used": {"spec": {"confirm": None}},
    "there is no history": {"history_enabled": False},
    "the job failed": {"tekton": lambda: Tekton(fails={"job"})},
    "it only locked": {"spec": {"lockOnly": True, "executionEngine": None, "shutdown": "Stop"}},
    "it is a rerun itself": {"labels": {CONFIRMS_LABEL: "another"}},
    "a manager cluster has the history": {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "w"}},
}


@pytest.mark.parametrize("case", NOTHING)
async def test_without_reruns_nothing_is_expected_and_a_forged_suspicion_does_nothing(case: str) -> None:
    found = await run(with_reruns(actor=historian(forges=True), **NOTHING[case]))
    assert reruns(found.server) == []
    assert condition(job(found.server), RERUNS_CREATED) is None


async def test_without_confirm_no_request_is_made() -> None:
    plain = await run(with_reruns(spec={"confirm": None}))
    expected = await run(with_reruns(actor=historian(suspects=False)))
    assert len(plain.process.api.writes) == len(expected.process.api.writes) - 1
    assert reruns(expected.server) == []


async def test_nothing_suspected_ends_the_wait() -> None:
    found = await run(with_reruns(actor=historian(suspects=False)))
    assert reason(found) == "NotSuspected"
    later = await run(with_reruns(actor=historian(suspects=False), spec={"ttl": "30m"}))
    assert later.server.find(FOURNOS_JOB, Key(NS, "job")) is None, "the deletion waits for nothing more"


async def test_a_spec_that_was_changed_after_the_end_is_not_run_again() -> None:
    def begun_late(server: Server) -> None:
        found = job(server).get("status") or {}
        if found.get("phase") == "Succeeded":
            if "archivedAt" not in found:
                server.patch(FOURNOS_JOB, Key(NS, "job"), {"spec": {"owner": "victim"}})
            historian()(server)

    found = await run(with_reruns(actor=begun_late))
    assert reruns(found.server) == []
    assert reason(found) == "SpecChanged"


async def test_reruns_that_are_refused_are_reported_and_not_tried_for_ever() -> None:
    def refuse(verb: str, resource: Any, obj: Obj) -> None:
        if verb == "create" and resource == FOURNOS_JOB and "confirm1" in obj["metadata"]["name"]:
            raise ForbiddenError("fournosjobs is forbidden", status=403)

    found = await run(with_reruns(refuse=refuse))
    assert reruns(found.server) == []
    assert reason(found) == "ForbiddenError"
    assert "fournosjobs is forbidden" in (condition(job(found.server), RERUNS_CREATED) or {})["message"]


async def test_a_foreign_job_with_that_name_is_no_rerun() -> None:
    def occupied(server: Server) -> None:
        submit(server, rerun_name("job", job(server)["metadata"]["uid"], 1), owner="other", confirm=None)

    one = with_reruns()

    def begin(server: Server) -> None:
        one.setup(server)
        occupied(server)

    found = await run(replace(one, setup=begin))
    (theirs,) = reruns(found.server)
    assert theirs["spec"]["owner"] == "other"
    assert reason(found) == "ForeignObject"


async def test_deleted_reruns_are_not_made_again() -> None:
    def delete(server: Server) -> None:
        for one in reruns(server):
            server.delete(FOURNOS_JOB, key_of(one))

    found = await run(with_reruns(script=[delete]))
    assert reruns(found.server) == []
    assert len(created(found.server)) == 3


class ResolverOfOne(Resolver):
    """Resolves the job alone: the reruns stay as they were made."""

    def __call__(self, server: Server) -> None:
        if not reruns(server):
            super().__call__(server)


@pytest.mark.parametrize("how", DISTURBED)
async def test_every_disturbance_makes_each_rerun_once(how: str) -> None:
    # A short time to look at: the reruns wait for their resolver, who is polled.
    story = replace(with_reruns(), cast=(ResolverOfOne, Kueue, Tekton), horizon=60.0)
    assert await DISTURBED[how](story) > 0


def test_names_fit_and_differ() -> None:
    names = {rerun_name("a" * 55, uid, number) for uid in ("u1", "u2") for number in range(1, 6)}
    assert len(names) == 10
    assert all(len(one) <= MAX_NAME for one in names)
    assert rerun_name("a" * 30 + "." * 10, "u", 1).startswith("a" * 30 + "-confirm1-")


def test_a_backoff_never_ends_after_the_last_year_that_there_is() -> None:
    failed = [{"number": number, "outcome": "Failed"} for number in range(1, 10)]
    last = {"number": 10, "cluster": "cluster-1", "workload": "job", "pipelineRun": "job-r10"}
    status = {"attempt": 10, "attempts": [*failed, last]}
    run = {**FAILED, "metadata": {**FAILED["metadata"], "name": "job-r10"}}
    retry = {"limit": 10, "backoff": "999999h"}
    pods = replace(PODS, selector="tekton.dev/pipelineRun=job-r10")
    job = a_job("Running", status=status, retry=retry)
    found = decided(job, workloads=(a_workload(),), runs=(run,), answers={pods: Present(())})
    assert written(found, "phase", "retryAt") == ("Pending", "2031-01-02T12:00:00Z")


def test_results_that_are_too_large_for_tekton_are_named() -> None:
    ended = {"name": "step-run", "state": {"terminated": {"exitCode": 1}}}
    pod = a_pod(phase="Failed")
    pod["metadata"]["labels"]["tekton.dev/taskRun"] = "job-run"
    pod = {**pod, "status": {"phase": "Failed", "containerStatuses": [ended]}}
    tail = LogTail(NS, "tekton.dev/taskRun=job-run", 3, container="step-run")
    words = "Termination message is above max allowed size 4096, caused by large task result."
    for log, told in ((Present(words), True), (Present("no such model"), False), (Unknown("timeout"), False)):
        answers: dict[Any, Answer] = {PODS: Present((pod,)), tail: log}
        found = decided(a_job("Running"), workloads=(a_workload(),), runs=(FAILED,), answers=answers)
        (message,) = written(found, "message")
        assert message.startswith("exit code 1") and ("fournos results push" in message) == told


@pytest.mark.parametrize("phase", ["Pending", "Admitted", "Running", "Stopping"])
@pytest.mark.parametrize("spec", [{}, {"shutdown": "Stop"}, {"timeouts": {"pending": "1h"}}])
def test_a_time_that_nobody_can_read_keeps_no_job_from_its_end(phase: str, spec: Any) -> None:
    """The API server knows a year 0, and an engine may write the status of its job."""
    never = "0000-01-01T00:00:00Z"
    times = dict.fromkeys(("pending", "admitted", "running", "finished"), never)
    stated = [
        {"type": one, "status": "False", "reason": "x", "message": "", "lastTransitionTime": never}
        for one in ("Suspended", "PipelineRunReady", "WorkloadAdmitted")
    ]
    entry = {"number": 1, "cluster": "cluster-1", "workload": "job", "pipelineRun": "job", "startedAt": never}
    status = {"phaseTimes": times, "conditions": stated, "attempts": [entry], "stopRequestedAt": never}
    for meta in ({}, GOING):
        found = decided(
            a_job(
                phase,
                status={**status, "retryAt": never},
                meta={"finalizers": [names.FINALIZER], **meta},
                **spec,
            ),
            workloads=(a_workload(),),
            runs=(SUCCEEDED,),
        )
        assert found.steps or found.status
