"""Why a job is in its phase: the whole explanation, for each phase and for each state of its Workload."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.engine.kube.errors import ForbiddenError, NotFoundError
from fournos.insight.children import Children
from fournos.insight.explanation import Explanation
from fournos.insight.facts import WaitFacts
from fournos.insight.failure import WantedLogs, nothing
from fournos.insight.queue_reasons import Words, in_queue, kept_from_quota, queue_problem
from fournos.insight.quota import priority_class
from fournos.insight.reasons import explain
from fournos.insight.starting import pod_problem
from tests.unit.cli.objects import NOW, ago, cluster_queue, job, local_queue, workload

UNREADY = {"type": "Ready", "status": "False", "reason": "NoEngine", "message": "no engine\nis configured"}
PROBLEM = "Ready: NoEngine: no engine is configured"
RESOLVE = {"metadata": {"name": "r", "uid": "r"}}
LOGS = "what its tasks print: fournos logs -f one"
RESOLVER_LOGS = "what the resolver prints: fournos logs -f one"


def explained(phase: str | None, *, found: Children | None = None, **fields: Any) -> Explanation:
    status = {"message": "m", "conditions": [UNREADY], **fields.pop("status", {})}
    return explain(WaitFacts(job(phase=phase, status=status, **fields), found or Children()), NOW)


def test_a_job_that_is_being_deleted() -> None:
    deleted = job(status={"conditions": [UNREADY]})
    deleted["metadata"]["deletionTimestamp"] = ago(seconds=1)
    text = "one is being deleted; its run is stopped first."
    assert explain(WaitFacts(deleted), NOW) == Explanation(text, (PROBLEM,))


def test_a_job_without_an_operator() -> None:
    assert explained(None) == Explanation(
        "No operator has looked at one yet (10m).",
        advice=(
            "see whether one runs for this namespace: kubectl get pods -n bench "
            "-l app.kubernetes.io/name=fournos",
            "or start one here: fournos run -n bench",
        ),
    )


def test_a_job_of_another_manager() -> None:
    text = "one waits for someone/else, which its spec.managedBy names."
    assert explained(None, spec={"managedBy": "someone/else"}) == Explanation(text)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Children(), "one waits for its resolve Job to be made"),
        (Children(resolve_jobs=(RESOLVE,)), "one is resolving its requirements"),
    ],
)
def test_a_job_that_resolves(found: Children, text: str) -> None:
    advice = (RESOLVER_LOGS,) if found.resolve_jobs else ()
    assert explained(
        "Resolving", found=found, status={"phaseTimes": {"resolving": ago(minutes=3)}}
    ) == Explanation(f"{text} (3m).", ("m", PROBLEM), advice)


def test_a_job_that_has_its_cluster() -> None:
    assert explained("Admitted", status={"cluster": "c1"}) == Explanation(
        "one has its cluster, c1; its run is being prepared.",
        ("m", PROBLEM),
        ("follow it: fournos watch one",),
    )


def test_a_lock_that_is_held() -> None:
    status = {"cluster": "c1", "phaseTimes": {"admitted": ago(hours=2)}}
    assert explained("Admitted", spec={"lockOnly": True}, status=status) == Explanation(
        "one has held c1 for 2h: nothing else runs there until it ends.",
        advice=("give the cluster back: fournos stop one",),
    )


def test_a_job_that_runs() -> None:
    status = {"cluster": "c1", "phaseTimes": {"running": ago(minutes=5)}}
    explanation = explained("Running", status=status)
    assert explanation.verdict == "one has been running on c1 for 5m."
    assert (explanation.because, explanation.advice) == (("m", PROBLEM), (LOGS,))
    assert explained("Running", status={**status, "cluster": ""}).verdict == "one has been running for 5m."


def test_a_job_that_is_being_stopped() -> None:
    assert explained("Stopping") == Explanation(
        "one is being stopped: its run has to end before its quota is given back.",
        ("m", PROBLEM),
        ("do not wait for finally tasks: fournos stop --now one",),
    )


def test_a_held_job() -> None:
    assert explained("Pending", spec={"suspend": True}) == Explanation(
        "one is held by its own spec.suspend.",
        advice=("queue it: fournos release one",),
    )


@pytest.mark.parametrize(("minutes", "queued"), [(-5, False), (0, True), (5, True)])
def test_a_job_before_its_start_time(minutes: int, queued: bool) -> None:
    start = ago(minutes=minutes)
    explanation = explained("Pending", spec={"scheduledStartTime": start})
    told = f"one is not queued before {start} (spec.scheduledStartTime)"
    later = Explanation(f"{told}, in 5m.")
    assert (explanation == later) is not queued


@pytest.mark.parametrize(("minutes", "queued"), [(-5, False), (0, True), (5, True)])
def test_a_job_that_is_tried_again(minutes: int, queued: bool) -> None:
    again = ago(minutes=minutes)
    explanation = explained("Pending", status={"retryAt": again})
    text = "one failed and is tried again"
    later = Explanation(f"{text} in 5m.", ("m", PROBLEM))
    assert (explanation == later) is not queued


@pytest.mark.parametrize(
    ("message", "advice"), [("m", ("the messages above say what it needs before that",)), (None, ())]
)
def test_a_job_that_is_not_queued_says_what_it_needs(message: str | None, advice: tuple[str, ...]) -> None:
    explanation = explained("Pending", status={"message": message, "conditions": []})
    assert explanation.verdict == "one is not queued yet."
    assert explanation.advice == advice


ENDED = {"phaseTimes": {"running": ago(minutes=9), "finished": ago(minutes=2)}}


@pytest.mark.parametrize(("phase", "because"), [("Succeeded", ()), ("Stopped", ("m", PROBLEM))])
def test_a_job_that_has_ended(phase: str, because: tuple[str, ...]) -> None:
    text = f"one has ended: {phase} 2m ago, after a run of 7m."
    assert explained(phase, status=ENDED) == Explanation(text, because)


@pytest.mark.parametrize(
    ("status", "where", "length", "advice"),
    [
        ({"pipelineRun": "one"}, "", "a run of 7m", ("what was printed: fournos logs one",)),
        ({"attempt": 2, "cluster": "c1"}, " on c1", "its last run of 7m", ()),
    ],
)
def test_a_job_that_has_failed(
    status: dict[str, Any], where: str, length: str, advice: tuple[str, ...]
) -> None:
    assert explained("Failed", status={**ENDED, **status}) == Explanation(
        f"one has ended: Failed{where} 2m ago, after {length}.", ("m", PROBLEM), advice
    )


@pytest.mark.parametrize(
    ("found", "reason", "spec", "resolver"),
    [
        (Children(), "ClusterNotFound", {}, False),
        (Children(), "Failed", {}, True),
        (Children(resolve_jobs=(RESOLVE,)), "Invalid", {}, True),
        (Children(), "Resolved", {"lockOnly": True}, False),
    ],
)
def test_the_log_of_a_resolver_is_advised_where_one_has_run(
    found: Children, reason: str, spec: dict[str, Any], resolver: bool
) -> None:
    ended = {"type": "Resolved", "status": "False", "reason": reason, "message": "m"}
    failed = job("one", "Failed", status={"conditions": [ended]}, spec=spec)
    advice = ("what the resolver printed: fournos logs --resolver one",) if resolver else ()
    assert explain(WaitFacts(failed, found), NOW).advice == advice
    assert ("--resolver" in nothing(failed, found, WantedLogs()).fix) is resolver


def test_a_phase_of_a_newer_operator() -> None:
    assert explained("Sleeping") == Explanation("one is Sleeping.", ("m", PROBLEM))


@pytest.mark.parametrize(
    ("condition", "lines"),
    [
        (UNREADY, ("m", PROBLEM)),
        ({**UNREADY, "status": "True"}, ("m",)),
        ({**UNREADY, "message": "m"}, ("m",)),
        ({**UNREADY, "message": None}, ("m",)),
        ({**UNREADY, "reason": None}, ("m", "Ready: no engine is configured")),
        ({**UNREADY, "type": "Retrying"}, ("m",)),
        (
            {**UNREADY, "type": "Retrying", "status": "True"},
            ("m", "Retrying: NoEngine: no engine is configured"),
        ),
        ({**UNREADY, "type": "Suspended"}, ("m",)),
        ({**UNREADY, "type": "RerunsCreated"}, ("m",)),
    ],
)
def test_conditions_that_report_a_problem_are_told_once(condition: Any, lines: tuple[str, ...]) -> None:
    assert explained("Sleeping", status={"conditions": [condition]}).because == lines


def test_a_job_without_a_message_tells_none() -> None:
    assert explained("Sleeping", status={"message": None}).because == (PROBLEM,)


def test_a_run_that_is_not_ready_is_no_problem_of_a_running_job() -> None:
    status = {"conditions": [{**UNREADY, "type": "PipelineRunReady"}]}
    assert explained("Running", status=status).because == ("m",)


@pytest.mark.parametrize("kind", ["initContainerStatuses", "containerStatuses"])
@pytest.mark.parametrize(
    ("waiting", "text"),
    [
        ({"reason": "ErrImagePull", "message": "no\nsuch"}, "pod p: ErrImagePull: no such"),
        ({"reason": "PodInitializing"}, ""),
        ({"reason": "ContainerCreating"}, ""),
        (None, ""),
    ],
)
def test_what_keeps_a_container_from_starting(kind: str, waiting: Any, text: str) -> None:
    status = {kind: [{"state": {"waiting": waiting}}]}
    assert pod_problem({"metadata": {"name": "p"}, "status": status}) == text


# --- whatever quota is free -------------------------------------------------------------------------------


def waits(queued: dict[str, Any] | None, **facts: Any) -> Explanation | None:
    """Returns why the job waits, with a queue that is in order by default."""
    queues = {"local_queue": local_queue(), "cluster_queue": cluster_queue(), **facts}
    return kept_from_quota(job(), queued, WaitFacts(job(), **queues), ("m",), ("wait",))


def conditions(*types: str, reason: str = "R") -> list[dict[str, str]]:
    return [{"type": type_, "status": "True", "reason": reason, "message": "k"} for type_ in types]


def test_a_job_without_a_workload() -> None:
    assert waits(None) == Explanation("one is not queued yet.", ("m",), ("wait",))


def test_a_workload_that_kueue_may_not_admit() -> None:
    explanation = waits(workload(active=False))
    assert explanation == Explanation(
        "one was deactivated in Kueue.",
        ("m", "Kueue: no room"),
        (
            "queue it again: kubectl patch workload one -n bench --type merge "
            """-p '{"spec":{"active":true}}'""",
        ),
    )


def test_a_workload_that_was_evicted() -> None:
    evicted = workload(conditions=conditions("QuotaReserved", "Admitted", "Evicted", reason="Preempted"))
    explanation = waits(evicted)
    assert explanation is not None
    assert explanation.verdict == "one was evicted (Preempted) and gives its quota back."
    assert explanation.because == ("m", "Kueue: k")


@pytest.mark.parametrize(
    ("types", "text"),
    [
        (("QuotaReserved",), "one has its quota, and waits for admission checks."),
        (("QuotaReserved", "Admitted"), "one is admitted and starts any moment."),
    ],
)
def test_a_workload_with_quota(types: tuple[str, ...], text: str) -> None:
    explanation = waits(workload(conditions=conditions(*types)))
    assert explanation is not None
    assert explanation.verdict == text
    assert explanation.because[0] == "m"


def test_a_cluster_queue_that_nobody_may_read() -> None:
    explanation = waits(workload(), cluster_queue=ForbiddenError("no"))
    because = ("m", "Kueue: no room")
    assert explanation == Explanation("one waits for Kueue to admit it.", because)


def test_a_workload_that_the_quota_explains() -> None:
    assert waits(workload()) is None


def test_a_broken_queue_comes_first_and_keeps_what_the_job_says() -> None:
    inactive = [{"type": "Active", "status": "False", "reason": "Why", "message": "no\nflavor"}]
    explanation = waits(None, cluster_queue=cluster_queue(conditions=inactive))
    assert explanation == Explanation(
        "one waits: ClusterQueue fournos-queue is not active.",
        ("Why: no flavor", "m"),
        ("ask an administrator to repair the queue",),
    )


def test_a_stopped_local_queue_below_a_cluster_queue_that_nobody_may_read() -> None:
    stopped = local_queue(stopPolicy="Hold")
    facts = WaitFacts(job(), local_queue=stopped, cluster_queue=ForbiddenError("no"))
    assert queue_problem(facts) == Explanation(
        "one waits: LocalQueue fournos-queue is stopped (stopPolicy Hold).",
        advice=("wait until an administrator sets stopPolicy to None",),
    )


def test_a_local_queue_that_nobody_may_read_is_no_problem() -> None:
    facts = WaitFacts(job(), local_queue=ForbiddenError("no"), cluster_queue=NotFoundError("gone"))
    assert queue_problem(facts) is None


def test_an_object_without_a_queue() -> None:
    other = {"metadata": {"name": "other", "namespace": "bench"}}
    text = "other names no queue, so Kueue does not know it."
    assert in_queue(other, None, WaitFacts(other), Words((), "", "")) == Explanation(text)


@pytest.mark.parametrize(("labels", "name"), [({"kueue.x-k8s.io/priority-class": "high"}, "high"), ({}, "")])
def test_the_priority_class_of_an_object(labels: dict[str, str], name: str) -> None:
    assert priority_class(job(labels=labels)) == name
    assert priority_class({"metadata": {"name": "plain"}}) == ""
