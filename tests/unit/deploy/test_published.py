"""Each published command is run by a test: this table names the test, and it must be complete.

`make demo`, `test` and its parts are what continuous integration runs.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
APPWRAPPERS = "tests/e2e/appwrappers/test_undeploy.py"
DEPLOYED = "tests/e2e/appwrappers/conftest.py"
DEVELOPED = "tests/e2e/jobs/test_dev_commands.py"
VAULT = "tests/integration/test_vault_sync.py"
SCRIPTS = "tests/e2e/devcluster/test_full.py"
RUN_BY = {
    "docker-build": DEPLOYED,
    "docker-push": "tests/unit/deploy/test_image_names.py",
    "kind-push": DEPLOYED,
    "deploy": DEPLOYED,
    "undeploy": APPWRAPPERS,
    "install": APPWRAPPERS,
    "run": APPWRAPPERS,
    "uninstall": APPWRAPPERS,
    "dev-setup": DEVELOPED,
    "dev-run": DEVELOPED,
    "dev-teardown": DEVELOPED,
    "sync-vault-secrets": VAULT,
    "sync-vault-secrets-dry-run": VAULT,
    "hack/create-test-cluster.sh": SCRIPTS,
    "hack/deploy-kueue.sh": SCRIPTS,
    "hack/run-tests-on-cluster.sh": APPWRAPPERS,
    "hack/lock.sh": "tests/integration/test_lock.py",
}
SECTIONS = ("AppWrapper", "Vault")


@pytest.mark.parametrize("command", RUN_BY)
def test_a_test_runs_it(command: str) -> None:
    assert f'"{command}"' in (ROOT / RUN_BY[command]).read_text()


def test_none_is_left_out() -> None:
    sections = re.split(r"^##@ ", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    there = {
        target
        for section in sections
        for target in re.findall(r"^([a-z0-9-]+):.*## ", section, re.MULTILINE)
        if section.startswith(SECTIONS) or target.startswith("dev-")
    }
    scripts = {f"hack/{path.name}" for path in (ROOT / "hack").glob("*.sh")}
    # Whatever make does begins with it.
    assert there | scripts - {"hack/bootstrap.sh"} == set(RUN_BY)
