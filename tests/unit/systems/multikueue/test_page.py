"""docs/multikueue.md: which tests show the lines of its table, for each column; and its sample."""

from __future__ import annotations

import re
from pathlib import Path

from devcluster import manifests

ROOT = Path(__file__).resolve().parents[4]
TESTS = ROOT / "tests" / "integration" / "multikueue"

SHOWN_BY: dict[str, tuple[str, ...]] = {
    "`controllerName` of the AdmissionCheck": (
        "test_dispatch.test_kueues_own_adapter",
        "test_dispatch.test_ours",
    ),
    "who wins": (
        "test_differences.test_kueue_took_the_first_with_quota",
        "test_differences.test_kueue_takes_the_first_that_admits",
        "test_differences.test_ours_takes_the_first_that_admits",
    ),
    "evicted by its worker": (
        "test_differences.test_kueue_kept_what_its_worker_evicts",
        "test_differences.test_kueue_dispatches_anew_what_its_worker_evicts",
        "test_faults.test_evictions_and_restarts",
    ),
    "evicted on the manager": (
        "test_differences_ends.test_kueue_deletes_what_the_manager_evicts",
        "test_faults.test_evictions_and_restarts",
    ),
    "what travels": (
        "test_differences.test_kueue_copied_owners_and_finalizers",
        "test_differences.test_kueue_copies_labels_and_annotations",
        "test_differences.test_ours_copies_labels_and_annotations",
    ),
    "an object of that name on the worker that somebody else made": (
        "test_differences.test_kueue_deleted_what_others_made",
        "test_differences.test_kueue_leaves_what_others_made",
        "test_differences.test_ours_asks_another_worker",
    ),
    "a worker without one kind's CRD": (
        "test_differences_workers.test_kueue_gives_up_a_worker_without_one_crd",
        "test_differences_workers.test_ours_takes_other_kinds_there",
    ),
    "a worker that cannot be reached": (
        "test_differences_workers.test_kueue_counted_from_its_last_look",
        "test_differences_workers.test_kueue_counts_from_the_loss",
        "test_differences_workers.test_ours_counts_from_the_loss",
    ),
    "a worker that hangs": (
        "test_differences_workers.test_kueue_waits_for_one_that_hangs",
        "test_differences_workers.test_ours_does_not_wait",
    ),
    "status": (
        "test_differences_ends.test_kueue_replaces_the_status",
        "test_differences_ends.test_ours_mirrors_at_once_and_keeps_the_managers_fields",
    ),
    "a finished job's copy": (
        "test_differences_ends.test_kueue_deletes_what_has_finished",
        "test_differences_ends.test_ours_keeps_it_for_a_while",
    ),
    "AppWrappers": ("test_wrapped.test_an_appwrapper", "own/test_appwrappers.test_it_runs_on_the_worker"),
    "`batch/job`": (
        "test_differences_ends.test_kueue_takes_jobs",
        "test_differences_ends.test_ours_leaves_jobs_to_kueue",
    ),
}


def lines() -> list[str]:
    """The first column, without its head."""
    page = (ROOT / "docs" / "multikueue.md").read_text(encoding="utf-8")
    section = page.split("## Built-in adapter or ours\n")[1].split("\n## ")[0]
    return re.findall(r"^\| ([^|-][^|]*) \|", section, re.MULTILINE)


def test_the_sample_is_the_pages() -> None:
    page = (ROOT / "docs" / "multikueue.md").read_text(encoding="utf-8")
    sample = (ROOT / "samples" / "multikueue" / "manager.yaml").read_text(encoding="utf-8")
    shown = page.split("```yaml\n")[1].split("```")[0]
    assert manifests.parse(shown) == manifests.parse(sample)


def test_every_line_is_shown() -> None:
    assert lines() == list(SHOWN_BY)


def test_what_newer_kueues_do_otherwise_has_a_test_of_its_own() -> None:
    """And the release that brought it; what is the same, one test shows on both versions."""
    page = (ROOT / "docs" / "multikueue.md").read_text(encoding="utf-8")
    rows = {name: line for line in page.splitlines() for name in SHOWN_BY if line.startswith(f"| {name} |")}
    assert rows.keys() == SHOWN_BY.keys()
    for name, row in rows.items():
        newer = row.split(" | ")[2]
        differs = re.search(r"\(0\.1[5-9]", newer) is not None
        assert differs or newer.startswith(("the same", "yes")), row
        assert len(SHOWN_BY[name]) == (3 if differs else 2), row


def test_by_tests_that_exist() -> None:
    for line, shown in SHOWN_BY.items():
        for one in shown:
            module, name = one.split(".")
            source = (TESTS / f"{module}.py").read_text(encoding="utf-8")
            assert re.search(rf"^async def {name}\(", source, re.MULTILINE), f"{line}: no {one}"
