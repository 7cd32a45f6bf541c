"""A setting means the same in every combination of `--enable`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from fournos.app import run
from fournos.app.parts import PARTS
from fournos.systems.appwrappers.settings import AppWrapperSettings
from fournos.systems.clusters.settings import ClusterSettings
from fournos.systems.jobs.settings import JobSettings
from fournos.systems.multikueue.settings import MultiKueueSettings
from tests.multikueue_configuration import configuration


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FOURNOS_NAMESPACE", "n")
    monkeypatch.setenv("FOURNOS_MULTIKUEUE_CONFIG_FILE", configuration("PipelineRun.v1.tekton.dev"))
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize(
    ("variables", "enable", "level"),
    [
        ({}, "jobs", "INFO"),
        ({"FOURNOS_LOG_LEVEL": "ERROR"}, "jobs,miniclusters", "ERROR"),
        ({"HEARTH_LOG_LEVEL": "ERROR"}, "clusters", "ERROR"),
        ({"HEARTH_LOG_LEVEL": "DEBUG"}, "jobs", "INFO"),
        ({"HEARTH_LOG_LEVEL": "ERROR", "FOURNOS_LOG_LEVEL": "DEBUG"}, "jobs,clusters", "DEBUG"),
    ],
)
def test_the_most_detailed_log_level_that_is_set_counts(
    variables: dict[str, str], enable: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stand_in(*args: Any, **kwargs: Any) -> int:
        return 0

    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(run, "load", lambda *_: None)
    monkeypatch.setattr(run, "_run", stand_in)
    assert run.main(enable=(enable,)) == 0
    assert logging.getLevelName(logging.getLogger().level) == level


SHARED = {
    "FOURNOS_GPU_RESOURCE_PREFIX": ("acme/x-", "gpu_resource_prefix"),
    "FOURNOS_KUBECONFIG_SECRET_PATTERN": ("of-{cluster}", "kubeconfig_secret_pattern"),
    "FOURNOS_SECRETS_NAMESPACE": ("elsewhere", "secrets_namespace"),
}
OWNERS = (JobSettings, ClusterSettings, MultiKueueSettings, AppWrapperSettings)


@pytest.mark.parametrize("variable", SHARED)
def test_shared_settings_have_one_variable(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value, field = SHARED[variable]
    monkeypatch.setenv(variable, value)
    having = [owner for owner in OWNERS if field in owner.model_fields]
    assert len(having) > 1
    assert {getattr(owner(), field) for owner in having} == {value}


def test_hearth_s_own_variable_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_SECRETS_NAMESPACE", "elsewhere")
    monkeypatch.setenv("HEARTH_SECRETS_NAMESPACE", "own")
    assert ClusterSettings().secrets_namespace == "own"
    assert JobSettings(namespace="n").secrets_namespace == "elsewhere"


def test_no_two_parts_have_a_shared_setting_that_is_not_listed() -> None:
    """Names of their own meaning in each part, and those above."""
    own = {"namespace", "gc_interval_sec", "stop_grace_sec", "kinds"}
    servers = {"jobs_namespace", "clusters_namespace", "port", "service", "certificate_secret"}
    for one, other in combinations(PARTS.values(), 2):
        common = set(one.settings.model_fields) & set(other.settings.model_fields)
        assert common <= own | servers | {field for _, field in SHARED.values()}
