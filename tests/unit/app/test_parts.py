"""The values that `fournos run --enable` accepts, and the messages for others."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fournos
from fournos.app.parts import PARTS, TABLE
from fournos.app.run import main
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.manager import Manager
from fournos.engine.runtime.metrics import RUNTIME, Counter, Gauge, Metrics
from fournos.systems.clusters.settings import ClusterSettings
from fournos.systems.jobs.settings import JobSettings
from fournos.systems.miniclusters import metrics
from tests.unit.engine.runtime.controlled import Bench, until
from tests.world.connection import Connection
from tests.world.server import Server


def test_every_part_is_listed_under_its_own_name() -> None:
    packages = Path(fournos.__file__).parent
    declared = {
        path.parent.name for path in (*packages.glob("*/part.py"), *packages.glob("systems/*/part.py"))
    }
    assert {name: part.name for name, part in PARTS.items()} == {name: name for name in declared}


def test_an_unknown_system_is_named_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(enable=("clusters,ovens",)) == 2
    assert "unknown system 'ovens'; known: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HEARTH_RECONCILE_INTERVAL_SEC", "0"),
        ("FOURNOS_KUBECONFIG_SECRET_PATTERN", "kubeconfig"),
        ("HEARTH_LOG_LEVEL", "LOUD"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, value)
    assert main(enable=("clusters",)) == 2
    assert f"fournos: {variable}: " in capsys.readouterr().err


def test_settings_are_the_defaults_of_the_hearth_readme() -> None:
    found = ClusterSettings()
    assert (found.namespace, found.secrets_namespace, found.execution_namespace) == (
        "hearth",
        "psap-secrets",
        "psap-automation",
    )
    assert (found.reconcile_interval_sec, found.gpu_discovery_default_interval_sec) == (30, 300)
    assert (found.gpu_discovery_timeout_sec, found.log_level) == (10, "INFO")
    assert found.cluster_of("kubeconfig-cluster-1") == "cluster-1"
    assert found.cluster_of("kubeconfig-") is None and found.cluster_of("other") is None


async def test_the_clusters_start_and_report() -> None:
    metrics = Metrics(TABLE)
    running = PARTS["clusters"].start(ClusterSettings(), SystemClock(), metrics, lambda controller, key: None)
    manager = Manager(Connection(Server()), running.controllers, metrics=metrics)
    running.refresh(manager)
    assert metrics.value("fournos_clusters", "Valid") == 0
    assert list(running.background) == ["fleet"]


@pytest.mark.looptime
@pytest.mark.parametrize(("seconds", "soonest", "latest"), [("5", 0, 30), ("400", 350, 470)])
async def test_the_interval_of_garbage_collection(
    seconds: str, soonest: float, latest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From an orphan's creation to its end: the interval, and the age of 15 s that it must have."""
    monkeypatch.setenv("FOURNOS_NAMESPACE", "bench")
    monkeypatch.setenv("FOURNOS_GC_INTERVAL_SEC", seconds)
    part, bench, settings = PARTS["jobs"], Bench(), JobSettings()
    running = part.start(settings, SystemClock(), bench.metrics, lambda controller, key: None)
    manager = bench.manager(*running.controllers, collect_interval=part.collect_interval(settings))
    await bench.lead(manager)
    await asyncio.sleep(1)
    labels = {"app.kubernetes.io/managed-by": "fournos", "fournos.dev/job-name": "gone"}
    born = bench.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    meta = {"name": "gone", "namespace": "bench", "labels": labels, "creationTimestamp": born}
    bench.server.create(WORKLOAD, {"metadata": meta, "spec": {}})
    before = bench.clock.monotonic()
    await until(lambda: not bench.server.list(WORKLOAD))
    assert soonest <= bench.clock.monotonic() - before <= latest
    for task in bench.tasks:
        task.cancel()
    await asyncio.gather(*bench.tasks, return_exceptions=True)


def test_a_process_imports_its_own_parts_alone() -> None:
    code = "import sys, fournos.app.run as run; run.PARTS['jobs']; print(*sys.modules)"
    shown = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert {name for name in shown if name.endswith(".part")} == {
        "fournos.systems.jobs.part",
        "fournos.engine.runtime.part",
    }


# --- metrics ----------------------------------------------------------------------------------------
# The table of all metrics, and the tasks of the metrics server.

ROOT = Path(__file__).parents[3]


def test_names_are_as_prometheus_wants_them() -> None:
    assert len({row.name for row in TABLE}) == len(TABLE)
    for row in TABLE:
        # Ours, but for what published operators promise under their own names.
        ours = r"(fournos|controller_runtime|workqueue)" if row in RUNTIME else r"(fournos|appwrapper)"
        assert re.fullmatch(rf"{ours}_[a-z_]+", row.name)
        assert row.name.endswith("_total") == isinstance(row, Counter), row.name
        assert row.help.endswith(".")


def test_every_metric_that_is_declared_is_gathered_and_used() -> None:
    files = {path: path.read_text() for path in (ROOT / "src/fournos").rglob("*.py")}
    declaration = re.compile(
        r"^(\w+): Final = (?:table\.)?(?:Counter|Gauge|Histogram)\(\s*\"(\w+)\"", re.MULTILINE
    )
    declared = {
        name: (constant, path) for path, text in files.items() for constant, name in declaration.findall(text)
    }
    assert declared.keys() == {row.name for row in TABLE}
    for constant, path in declared.values():
        use = re.compile(rf"(\.(add|set|observe|counter|histogram)(\(\s*|, )|\[){constant}\b")
        package = ROOT / "src/fournos" if "runtime" in path.parts else path.parent
        where = (text for file, text in files.items() if file.is_relative_to(package))
        assert any(use.search(text) for text in where), constant


def test_all_that_is_declared_is_served() -> None:
    text = Metrics(TABLE).render().decode()
    for row in TABLE:
        kind = type(row).__name__.lower()
        assert f"# TYPE {row.name} {kind}\n" in text
    assert "fournos_minicluster_brokers 0.0" in text, "a gauge without labels is there from the start"
    assert isinstance(TABLE[0], Gauge)


def test_what_is_not_declared_is_refused() -> None:
    with pytest.raises(KeyError):
        Metrics().set(metrics.BROKERS, 1)
