"""The table of all metrics, and the tasks of the metrics server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fournos.app.parts import TABLE, reference
from fournos.engine.runtime.metrics import CONTROLLER_RUNTIME, Counter, Gauge, Metrics
from fournos.systems.miniclusters import metrics

ROOT = Path(__file__).parents[3]


def test_names_are_as_prometheus_wants_them() -> None:
    assert len({row.name for row in TABLE}) == len(TABLE)
    for row in TABLE:
        # Ours, but for what published operators promise under their own names.
        ours = r"(controller_runtime|workqueue)" if row in CONTROLLER_RUNTIME else r"(fournos|appwrapper)"
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


def test_the_reference_page_is_the_table() -> None:
    assert (ROOT / "docs/reference/metrics.md").read_text() == reference()


def test_what_is_not_declared_is_refused() -> None:
    with pytest.raises(KeyError):
        Metrics().set(metrics.BROKERS, 1)
