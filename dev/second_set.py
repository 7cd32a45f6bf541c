"""Runs a chosen part of the tests on the set of versions that is not the default: python -m dev.second_set.

The clusters have the names of those of other tests, so both cannot run at once; they end with the run.
Arguments go to pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from devcluster.versions import DEFAULT, SETS, VARIABLE

ROOT = Path(__file__).resolve().parents[1]
(OTHER,) = SETS.keys() - {DEFAULT}
WITHOUT_PODS = (
    "tests/integration/test_samples.py",
    "tests/integration/test_kueue_reasons.py",
    "tests/integration/api/test_rules.py::test_creations",
    "tests/integration/frameworks/test_queue.py",
    "tests/integration/jobs/test_faults_queue.py::test_kueue_preempts_a_running_job",
    "tests/integration/appwrappers/test_kueue_mode.py",
    "tests/integration/miniclusters/test_objects.py",
    "tests/integration/clusters/test_hub.py::test_the_life_of_a_cluster",
    "tests/integration/multikueue/test_dispatch.py",
    "tests/integration/multikueue/test_fournosjobs.py",
)
WITH_PODS = (
    "tests/e2e/jobs/test_lifecycle.py::test_a_job_succeeds_with_its_secrets_and_artifacts",
    "tests/e2e/jobs/test_lifecycle.py::test_an_exclusive_job_waits_for_the_cluster_and_names_its_holder",
    "tests/e2e/jobs/test_client.py::test_the_explanation_names_the_holder",
    "tests/e2e/frameworks/test_pipelineruns.py::test_two_runs_take_turns",
    "tests/e2e/miniclusters/test_life.py::test_queued_by_the_labels_of_its_job",
    "tests/e2e/appwrappers/test_stories.py::test_the_walk_through_of_the_readme",
)


def main() -> None:
    """Does not return: `around` takes the place of this process, so that it gets the signals of make."""
    os.environ |= {VARIABLE: OTHER, "FOURNOS_STATE": str(ROOT / "build" / f"clusters-{OTHER}")}
    os.chdir(ROOT)
    python = [sys.executable, "-m"]
    # The first time this compiles another Kubernetes: no single test should have to wait for that.
    built = subprocess.run([*python, "devcluster", "build"], check=False).returncode
    if built:
        sys.exit(built)
    paths = (f"without-pods={','.join(WITHOUT_PODS)}", f"with-pods={','.join(WITH_PODS)}")
    lanes = [*python, "dev.lanes", *paths, "--", *sys.argv[1:]]
    os.execv(sys.executable, [*python, "devcluster", "around", "--keep=no", "--", *lanes])  # noqa: S606


if __name__ == "__main__":
    main()
