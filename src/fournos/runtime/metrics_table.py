"""The table of all metrics: ours, and those that published operators have under their own names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    type: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = SECONDS


RECONCILE_SECONDS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0),
    *(40.0, 50.0, 60.0),
)
WORK_SECONDS = tuple(1e-8 * 10.0**power for power in range(12))
_CONTROLLER = ("controller",)
_QUEUE = ("name", "controller")

CONTROLLER_RUNTIME: tuple[Row, ...] = (
    Row(
        "controller_runtime_reconcile_total",
        "counter",
        ("controller", "result"),
        "Passes of a controller by result: success, error, requeue, requeue_after.",
    ),
    Row("controller_runtime_reconcile_errors_total", "counter", _CONTROLLER, "Passes that failed."),
    Row(
        "controller_runtime_reconcile_panics_total",
        "counter",
        _CONTROLLER,
        "Passes that ended in a fault of the program.",
    ),
    Row(
        "controller_runtime_reconcile_time_seconds",
        "histogram",
        _CONTROLLER,
        "Duration of a pass.",
        RECONCILE_SECONDS,
    ),
    Row(
        "controller_runtime_max_concurrent_reconciles",
        "gauge",
        _CONTROLLER,
        "Passes that a controller may make at the same time.",
    ),
    Row("controller_runtime_active_workers", "gauge", _CONTROLLER, "Passes under way."),
    Row("workqueue_depth", "gauge", _QUEUE, "Keys that wait for a worker."),
    Row("workqueue_adds_total", "counter", _QUEUE, "Keys that were added to the queue."),
    Row("workqueue_retries_total", "counter", _QUEUE, "Keys that were added again after a failure."),
    Row(
        "workqueue_queue_duration_seconds",
        "histogram",
        _QUEUE,
        "How long a key waited for a worker.",
        WORK_SECONDS,
    ),
    Row(
        "workqueue_work_duration_seconds",
        "histogram",
        _QUEUE,
        "How long a worker had a key.",
        WORK_SECONDS,
    ),
    Row(
        "workqueue_unfinished_work_seconds",
        "gauge",
        _QUEUE,
        "How long the keys under way have been under way, added up.",
    ),
    Row(
        "workqueue_longest_running_processor_seconds",
        "gauge",
        _QUEUE,
        "How long the oldest key under way has been under way.",
    ),
)
"""Of every controller, as operators made with controller-runtime export them; the label's value is the
kind that a controller works on."""

TABLE: tuple[Row, ...] = (
    Row("fournos_build_info", "gauge", ("version",), "1, with the version that runs."),
    Row("fournos_leader", "gauge", ("lease",), "1 while this process holds the lease."),
    Row(
        "fournos_reconciles_total",
        "counter",
        ("system", "result"),
        "Passes by result: gone, done, waiting, failed, conflict, bug.",
    ),
    Row("fournos_reconcile_seconds", "histogram", ("system",), "Duration of a pass, its API calls included."),
    Row(
        "fournos_reconcile_retries_total", "counter", ("system",), "Passes that are tried again with backoff."
    ),
    Row("fournos_steps_total", "counter", ("system", "step", "resource"), "Steps that succeeded."),
    Row(
        "fournos_step_failures_total",
        "counter",
        ("system", "step", "error"),
        "Steps that failed, by the class of the error.",
    ),
    Row("fournos_status_writes_total", "counter", ("system",), "Status writes."),
    Row("fournos_queue_ready", "gauge", ("system",), "Keys that wait for a worker."),
    Row("fournos_queue_processing", "gauge", ("system",), "Keys that a worker has."),
    Row("fournos_queue_retrying", "gauge", ("system",), "Keys that wait for their backoff."),
    Row("fournos_queue_sleeping", "gauge", ("system",), "Keys with a deadline ahead."),
    Row(
        "fournos_queue_oldest_seconds",
        "gauge",
        ("system",),
        "How long the oldest ready key has been waiting.",
    ),
    Row(
        "fournos_api_requests_total",
        "counter",
        ("cluster", "verb", "resource", "code"),
        "Requests to API servers; code 0: no answer.",
    ),
    Row("fournos_api_request_seconds", "histogram", ("cluster", "verb"), "Duration of such a request."),
    Row(
        "fournos_watch_age_seconds",
        "gauge",
        ("resource", "namespace", "selector"),
        "Seconds since a watch last delivered anything, bookmarks included.",
    ),
    Row("fournos_cache_objects", "gauge", ("resource", "namespace", "selector"), "Objects in a cache."),
    Row(
        "fournos_task_restarts_total", "counter", ("task",), "Background tasks that ended and were restarted."
    ),
    Row("fournos_events_sent_total", "counter", (), "Kubernetes Events written, repetitions included."),
    Row(
        "fournos_events_dropped_total",
        "counter",
        ("reason",),
        "Kubernetes Events not written: rate limit, full queue, refused by the API server.",
    ),
    Row("fournos_clusters", "gauge", ("state",), "FournosClusters by status.kubeconfigStatus."),
    Row("fournos_cluster_locks", "gauge", ("state",), "Locks of FournosClusters by state."),
    Row("fournos_cluster_gpus", "gauge", ("cluster", "model"), "GPUs of FournosClusters by short name."),
    Row(
        "fournos_webhook_reviews_total",
        "counter",
        ("webhook", "verdict"),
        "Admission reviews by verdict: allowed, changed, refused, unsure (refused for now), garbled, failed.",
    ),
    Row("fournos_webhook_review_seconds", "histogram", ("webhook",), "Duration of an admission review."),
    Row(
        "fournos_webhook_certificate_end_seconds",
        "gauge",
        (),
        "When the webhooks' certificate ends, seconds since 1970.",
    ),
    Row(
        "fournos_metrics_certificate_end_seconds",
        "gauge",
        (),
        "When the certificate of this page ends, seconds since 1970.",
    ),
    Row("fournos_appwrappers", "gauge", ("phase",), "AppWrappers by status.phase."),
    Row(
        "appwrapper_phase_total",
        "counter",
        ("namespace", "phase"),
        "Phases that AppWrappers have entered, under the published operator's name.",
    ),
    Row("fournos_miniclusters", "gauge", ("phase",), "MiniClusters by status.phase."),
    Row("fournos_minicluster_brokers", "gauge", (), "Brokers of all MiniClusters that are up."),
    Row("fournos_loop_lag_seconds", "gauge", (), "How late the event loop's last tick came."),
    *CONTROLLER_RUNTIME,
)
