"""Each setting of the README's tables has a test that sees its effect; a new one needs an entry here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from fournos.clusters.settings import ClusterSettings
from fournos.jobs.settings import JobSettings

ROOT = Path(__file__).resolve().parents[3]
JOBS, CLUSTERS, PARTS, SHARED = (
    f"tests/unit/{name}.py"
    for name in ("jobs/test_settings", "clusters/test_settings", "app/test_parts", "app/test_shared_settings")
)
SECRETS = "test_where_secrets_are_and_what_they_are_called"
ENDS = "test_how_long_an_end_may_take"
HUB = "tests/integration/clusters/conftest.py"
SEEN: dict[type[BaseSettings], dict[str, tuple[str, str]]] = {
    JobSettings: {
        "namespace": (
            "tests/unit/jobs/test_names_and_adoption.py",
            "test_both_names_of_the_namespace_setting",
        ),
        "secrets_namespace": (JOBS, SECRETS),
        "tekton_dashboard_url": (JOBS, "test_dashboard"),
        "kubeconfig_secret_pattern": (JOBS, SECRETS),
        "vault_secret_pattern": (JOBS, SECRETS),
        "kueue_local_queue_name": (JOBS, "test_local_queue_and_gpu_prefix"),
        "gpu_resource_prefix": (JOBS, "test_local_queue_and_gpu_prefix"),
        "log_level": (SHARED, "test_a_log_level_counts_for_its_part_whatever_else_runs"),
        "gc_interval_sec": (PARTS, "test_the_interval_of_garbage_collection"),
        "resolve_deadline_sec": (JOBS, "test_deadline_of_the_resolver_and_what_it_is_told"),
        "resolve_job_template": (JOBS, "test_config_is_found_whatever_the_working_directory"),
        "artifact_pvc_size": (JOBS, "test_size_of_the_artifacts_volume"),
        "pipeline_timeout": (JOBS, "test_limits_of_the_pipeline"),
        "pipeline_tasks_timeout": (JOBS, "test_limits_of_the_pipeline"),
        "pipeline_finally_timeout": (JOBS, "test_limits_of_the_pipeline"),
        "stop_grace_sec": (JOBS, ENDS),
        "eviction_grace_sec": (JOBS, ENDS),
        "deletion_grace_sec": (JOBS, ENDS),
        "terminate_grace_sec": (JOBS, ENDS),
        "retry_backoff_sec": (JOBS, "test_the_wait_before_a_retry"),
        "hardware_required": (JOBS, "test_a_shared_job_without_gpus_runs_where_the_setting_allows_it"),
        "validation_image": (JOBS, "test_the_connectivity_check_has_the_pipelines_image_or_the_settings"),
        "secret_policy": ("tests/unit/jobs/test_allow.py", "test_without_a_list_the_setting_counts"),
        "secrets_kept": (JOBS, "test_how_long_copies_of_secrets_are_kept"),
    },
    ClusterSettings: {
        "namespace": (HUB, ""),
        "secrets_namespace": (HUB, ""),
        "execution_namespace": (HUB, ""),
        "kueue_cluster_queue_name": (HUB, ""),
        "kubeconfig_secret_pattern": (CLUSTERS, "test_the_pattern_of_secrets"),
        "gpu_resource_prefix": (CLUSTERS, "test_the_prefix_of_gpus"),
        "reconcile_interval_sec": (HUB, ""),
        "gpu_discovery_default_interval_sec": (
            CLUSTERS,
            "test_the_interval_of_discovery_and_a_cluster_s_own",
        ),
        "gpu_discovery_timeout_sec": (HUB, ""),
        "gpu_shrink_after_sec": (CLUSTERS, "test_how_long_gpus_must_be_missing"),
        "log_level": (SHARED, "test_a_log_level_counts_for_its_part_whatever_else_runs"),
    },
}
"""Setting → the file, and the test in it; "" where every test of the folder runs with a value of its own."""

CASES = [(which, field) for which in SEEN for field in which.model_fields]


@pytest.mark.parametrize(("which", "field"), CASES, ids=[f"{w.__name__}-{field}" for w, field in CASES])
def test_a_test_sees_the_setting(which: type[BaseSettings], field: str) -> None:
    assert field in SEEN[which], f"write a test that sees the effect of {field}, and name it here"
    path, name = SEEN[which][field]
    source = (ROOT / path).read_text(encoding="utf-8")
    if name:
        tests = {
            node.name: "".join(
                ast.get_source_segment(source, part) or "" for part in (*node.decorator_list, node)
            )
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        source = tests[name] if field != "log_level" else source
    assert field in source.lower(), f"{path}::{name} says nothing of {field}"


def test_no_entry_is_left_over() -> None:
    for which, entries in SEEN.items():
        assert set(entries) <= set(which.model_fields)
