"""Each setting of these systems has a test that sees its effect; a new one needs an entry here."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from fournos.engine.runtime.process import ProcessSettings
from fournos.engine.runtime.webhook.registration import WebhookSettings
from fournos.history.settings import HistorySettings
from fournos.systems.appwrappers.settings import AppWrapperSettings
from fournos.systems.clusters.settings import ClusterSettings
from fournos.systems.frameworks.settings import FrameworkSettings
from fournos.systems.jobs.settings import JobSettings
from fournos.systems.miniclusters.settings import MiniClusterSettings
from fournos.systems.multikueue.settings import MultiKueueSettings
from fournos.systems.vault.sync import VaultSettings
from fournos.web.settings import WebSettings

ROOT = Path(__file__).resolve().parents[3]
JOBS, CLUSTERS, PARTS, SHARED = (
    f"tests/unit/{name}.py"
    for name in (
        "systems/jobs/test_settings",
        "systems/clusters/test_settings",
        "app/test_parts",
        "app/test_shared_settings",
    )
)
SECRETS = "test_where_secrets_are_and_what_they_are_called"
ENDS = "test_how_long_an_end_may_take"
FLEETS, STARTED = (f"tests/unit/app/test_{name}.py" for name in ("fleets", "run"))
NAMES = "test_the_namespaces_and_the_queue"
LEASE = (STARTED, "test_a_part_s_variable_names_the_namespace_of_its_lease")
PROBES = (FLEETS, "test_how_often_a_cluster_is_probed")
ANSWERS = (FLEETS, "test_how_long_an_answer_may_take")
WRAPPERS, MINICLUSTERS, ADMISSION = (
    f"tests/unit/systems/{name}.py"
    for name in (
        "appwrappers/test_settings",
        "miniclusters/test_settings",
        "appwrappers/test_admission",
    )
)
FRAMEWORKS = "tests/unit/systems/frameworks/test_kinds.py"
WORKERS = "tests/unit/systems/multikueue/test_settings.py"
WEBHOOK = "tests/unit/engine/runtime/webhook/test_settings.py"
VAULT = "tests/unit/systems/vault/test_sync.py"
ARCHIVE, HISTORY = "tests/unit/systems/jobs/test_finish.py", "tests/unit/history/recorder/test_settings.py"
CONFIRM = "tests/unit/systems/jobs/test_finish.py"
WEB = "tests/unit/web/test_settings.py"
STORE, API = "tests/unit/history/test_store_settings.py", "tests/unit/history/api/test_tasks.py"
LOGS = "tests/unit/history/recorder/test_logs.py"
REGISTERED = (WEBHOOK, "test_the_service_and_the_secret")
ADDRESSES = (WEBHOOK, "test_its_address_and_its_accepted_clients")
SOURCE = (VAULT, "test_the_address_the_token_and_the_path")
SECRET_NAMES = (VAULT, "test_the_namespace_and_the_pattern_of_the_secrets")
LEVEL = (SHARED, "test_the_most_detailed_log_level_that_is_set_counts")
SEEN: dict[type[BaseSettings], dict[str, tuple[str, str]]] = {
    JobSettings: {
        "namespace": (
            "tests/unit/systems/jobs/test_names_and_adoption.py",
            "test_both_names_of_the_namespace_setting",
        ),
        "secrets_namespace": (JOBS, SECRETS),
        "tekton_dashboard_url": (JOBS, "test_dashboard"),
        "kubeconfig_secret_pattern": (JOBS, SECRETS),
        "vault_secret_pattern": (JOBS, SECRETS),
        "kueue_local_queue_name": (JOBS, "test_local_queue_and_gpu_prefix"),
        "gpu_resource_prefix": (JOBS, "test_local_queue_and_gpu_prefix"),
        "gc_interval_sec": (PARTS, "test_the_interval_of_garbage_collection"),
        "resolve_deadline_sec": (JOBS, "test_deadline_of_the_resolver_and_its_environment"),
        "resolve_job_template": (JOBS, "test_config_is_found_whatever_the_working_directory"),
        "artifact_pvc_size": (JOBS, "test_size_of_the_artifacts_volume"),
        "pipeline_timeout": (JOBS, "test_limits_of_the_pipeline"),
        "pipeline_tasks_timeout": (JOBS, "test_limits_of_the_pipeline"),
        "pipeline_finally_timeout": (JOBS, "test_limits_of_the_pipeline"),
        "stop_grace_sec": (JOBS, ENDS),
        "retry_backoff_sec": (JOBS, "test_the_wait_before_a_retry"),
        "hardware_required": (JOBS, "test_a_shared_job_without_gpus_runs_where_the_setting_allows_it"),
        "validation_image": (JOBS, "test_the_connectivity_check_has_the_pipelines_image_or_the_settings"),
        "secret_policy": (
            "tests/unit/systems/jobs/test_settings.py",
            "test_without_a_list_the_setting_counts",
        ),
        "confirm_repeats": (CONFIRM, "test_the_default_number_of_reruns"),
        "confirm_priority": (CONFIRM, "test_the_priority_of_reruns"),
        "secrets_kept": (JOBS, "test_how_long_copies_of_secrets_are_kept"),
        "history_enabled": (ARCHIVE, "test_without_a_history_nothing_changes"),
    },
    ClusterSettings: {
        "log_level": LEVEL,
        "namespace": (CLUSTERS, NAMES),
        "secrets_namespace": (CLUSTERS, NAMES),
        "execution_namespace": (CLUSTERS, NAMES),
        "kueue_cluster_queue_name": (CLUSTERS, NAMES),
        "kubeconfig_secret_pattern": (CLUSTERS, "test_the_pattern_of_secrets"),
        "gpu_resource_prefix": (CLUSTERS, "test_the_prefix_of_gpus"),
        "reconcile_interval_sec": PROBES,
        "gpu_discovery_default_interval_sec": (
            CLUSTERS,
            "test_the_interval_of_discovery_and_a_cluster_s_own",
        ),
        "gpu_discovery_timeout_sec": ANSWERS,
        "gpu_shrink_after_sec": (CLUSTERS, "test_how_long_gpus_must_be_missing"),
    },
    AppWrapperSettings: {
        "workloads": (ADMISSION, "test_the_queue_and_whether_it_waits"),
        "manage_jobs_without_queue_name": (ADMISSION, "test_the_queue_and_whether_it_waits"),
        "default_queue_name": (ADMISSION, "test_the_queue_and_whether_it_waits"),
        "user_rbac_admission_check": (WRAPPERS, "test_whether_the_rights_of_the_user_are_asked_for"),
        "admission_grace": (WRAPPERS, "test_how_long_and_how_often"),
        "warmup_grace": (WRAPPERS, "test_how_long_and_how_often"),
        "failure_grace": (WRAPPERS, "test_how_long_and_how_often"),
        "retry_pause": (WRAPPERS, "test_how_long_and_how_often"),
        "retry_limit": (WRAPPERS, "test_how_long_and_how_often"),
        "forceful_deletion_grace": (WRAPPERS, "test_how_long_and_how_often"),
        "success_ttl": (WRAPPERS, "test_how_long_and_how_often"),
    },
    MiniClusterSettings: {
        "view_image": (MINICLUSTERS, "test_it_is_seen_in_the_objects"),
        "cluster_domain": (MINICLUSTERS, "test_it_is_seen_in_the_objects"),
        "network_device": (MINICLUSTERS, "test_it_is_seen_in_the_objects"),
        "end_grace_sec": (MINICLUSTERS, "test_how_long_containers_beside_flux_may_take_to_end"),
        "pod_rights": (
            "tests/unit/systems/miniclusters/test_decide.py",
            "test_an_administrator_refuses_it_to_all_or_to_none",
        ),
    },
    FrameworkSettings: {
        "file": (FRAMEWORKS, "test_the_file_adds_a_kind"),
        "kinds": (FRAMEWORKS, "test_kinds_are_those_that_are_queued"),
    },
    MultiKueueSettings: {
        "external_frameworks": (WORKERS, "test_the_kinds_that_are_taken_to_workers"),
        "config_file": (WORKERS, "test_the_config_file_of_kueue_counts_too"),
        "kueue_namespace": (WORKERS, "test_the_kueue_namespace_is_where_kubeconfigs_are_read"),
        "origin": (WORKERS, "test_the_origin_on_all_that_is_made"),
        "worker_lost_timeout_sec": (WORKERS, "test_how_long_a_worker_may_be_lost"),
        "probe_interval_sec": PROBES,
    },
    WebSettings: {
        **dict.fromkeys(
            ("jobs_namespace", "clusters_namespace"), (WEB, "test_the_namespaces_that_are_watched")
        ),
        **dict.fromkeys(
            ("namespace", "port", "service", "certificate_secret"),
            (WEB, "test_the_secret_of_the_certificate"),
        ),
        **dict.fromkeys(
            ("proxy_secret_file", "proxy_prefix"), (WEB, "test_a_proxy_that_names_users_needs_a_secret")
        ),
        "public_url": (WEB, "test_public_url_names_the_host_that_is_answered"),
    },
    HistorySettings: {
        "namespace": LEASE,
        "jobs_namespace": (HISTORY, "test_the_namespace_whose_objects_are_recorded"),
        "url": (HISTORY, "test_the_database_is_that_of_the_url"),
        "kinds": (HISTORY, "test_a_controller_for_each_of_the_kinds"),
        "directory": (STORE, "test_the_directory_holds_the_database_and_the_blobs"),
        **dict.fromkeys(
            ("blobs", "s3_ca_file"),
            (STORE, "test_the_blobs_are_in_a_bucket"),
        ),
        **dict.fromkeys(
            ("retention_days", "retention_runs", "namespace_mb"), (STORE, "test_each_limit_can_be_set")
        ),
        "port": (API, "test_without_a_port_there_is_no_api"),
        "service": (API, "test_the_service_names_the_certificate"),
        "certificate_secret": (API, "test_the_certificate_is_in_its_secret"),
        **dict.fromkeys(
            ("artifact_files", "artifact_mb"),
            (API, "test_how_many_artifacts_a_run_may_have"),
        ),
        "log_mb": (LOGS, "test_the_collector_has_the_limit"),
        "log_deadline_sec": (LOGS, "test_the_hand_over_waits_for_logs_as_long_as_the_setting"),
        "webhook_url_file": (HISTORY, "test_confirmed_changes_go_to_the_webhook"),
        "page_url": (HISTORY, "test_messages_link_to_the_page"),
        "interval_sec": (HISTORY, "test_changes_within_the_interval_are_written_together"),
    },
    WebhookSettings: {
        "service": REGISTERED,
        "url": (WEBHOOK, "test_the_url"),
        "port": ADDRESSES,
        "host": ADDRESSES,
        "client_authorities": ADDRESSES,
        "secret": REGISTERED,
    },
    ProcessSettings: {
        "controller_namespace": (
            STARTED,
            "test_services_and_certificates_are_where_the_operator_is_and_its_lease_where_its_jobs_are",
        ),
        "log_level": LEVEL,
        "metrics_port": (STARTED, "test_metrics_are_on_the_port_of_the_probes_or_on_their_own"),
    },
    VaultSettings: {
        "addr": SOURCE,
        "token": SOURCE,
        "secret_path": SOURCE,
        "kv_mount": (VAULT, "test_the_kv_mount"),
        "kv_version": (VAULT, "test_the_kv_version"),
        "vault_namespace": (VAULT, "test_the_vault_namespace"),
        "ca_cert": (VAULT, "test_the_ca_cert"),
        "namespace": SECRET_NAMES,
        "secret_pattern": SECRET_NAMES,
    },
}
"""Setting → the file, and the test in it."""

CASES = [(which, field) for which in SEEN for field in which.model_fields]


@cache
def functions(path: str) -> dict[str, str]:
    """Each function of the file, with its decorators."""
    source = (ROOT / path).read_text(encoding="utf-8")
    return {
        node.name: "".join(
            ast.get_source_segment(source, part) or "" for part in (*node.decorator_list, node)
        )
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize(("which", "field"), CASES, ids=[f"{w.__name__}-{field}" for w, field in CASES])
def test_a_test_sees_the_setting(which: type[BaseSettings], field: str) -> None:
    assert field in SEEN[which], f"write a test that sees the effect of {field}, and name it here"
    path, name = SEEN[which][field]
    tests = functions(path)
    assert name in tests, f"{path} has no {name}"
    assert field in tests[name].lower(), f"{path}::{name} says nothing of {field}"


def test_no_entry_is_left_over() -> None:
    for which, entries in SEEN.items():
        assert set(entries) <= set(which.model_fields)
