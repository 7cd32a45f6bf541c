"""The alerts by promtool: the rules are valid, fire when they should, and leave alone what is well."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from dev.go_tools import PROMTOOL, ensure
from devcluster import manifests
from devcluster.progress import Progress
from tests.unit.deploy.monitoring import FOLDER, queries

TESTS = Path(__file__).parent / "rules_test.yaml"
VARIABLES = {"$namespace": ".*", "$job": ".*", "$__rate_interval": "5m"}


@pytest.fixture(scope="module")
def promtool() -> Path:
    return ensure(PROMTOOL, Progress())


def run(promtool: Path, *words: str | Path, cwd: Path) -> None:
    done = subprocess.run(
        [promtool, *words], cwd=cwd, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_when_it_should(promtool: Path, tmp_path: Path) -> None:
    (resource,) = manifests.parse((FOLDER / "rules.yaml").read_text())
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(resource["spec"]))
    run(promtool, "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml", cwd=tmp_path)
    shutil.copy(TESTS, tmp_path)
    run(promtool, "test", "rules", TESTS.name, cwd=tmp_path)


def test_every_query_of_the_dashboard_is_promql(promtool: Path, tmp_path: Path) -> None:
    """As a recording rule each, with Grafana's variables filled in."""
    recorded = []
    for number, (_, query) in enumerate(queries()):
        for variable, value in VARIABLES.items():
            query = query.replace(variable, value)
        assert "$" not in query
        recorded.append({"record": f"test:query:{number}", "expr": query})
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    run(promtool, "check", "rules", path, cwd=tmp_path)
