"""How a run of a comparison is named."""

from __future__ import annotations

import pytest

from fournos.client.history import By, SelectorError, baseline_for, parse, parse_all


@pytest.mark.parametrize(
    ("text", "by", "labels"),
    [
        ("llama-7b", By.NAME, {}),
        ("0a1b2c3d-0000-0000-0000-000000000001", By.NAME, {}),
        ("@last", By.LAST, {}),
        ("@latest", By.LAST, {}),
        ("@baseline", By.BASELINE, {}),
        ("team=x", By.LABELS, {"team": "x"}),
        ("team==x, model = y,", By.LABELS, {"team": "x", "model": "y"}),
        ("example.com/team=x,model=", By.LABELS, {"example.com/team": "x", "model": ""}),
    ],
)
def test_a_selector(text: str, by: By, labels: dict[str, str]) -> None:
    found = parse(text)
    assert (found.text, found.by, found.labels) == (text, by, labels)


@pytest.mark.parametrize("text", ["@base", "@", "team!=x", "=x", "team=x,model"])
def test_what_is_no_selector(text: str) -> None:
    with pytest.raises(SelectorError, match=text.rpartition(",")[2]):
        parse(text)


def test_labels_and_last_mean_jobs_that_succeeded() -> None:
    assert parse("@last").filters == {"kind": "FournosJob", "phase": "Succeeded"}
    assert parse("a=b").filters == {"kind": "FournosJob", "phase": "Succeeded", "labels": {"a": "b"}}


def test_a_baseline_needs_a_run_beside_it() -> None:
    assert [one.by for one in parse_all(["@baseline", "a"])] == [By.BASELINE, By.NAME]
    assert parse_all([]) == ()
    with pytest.raises(SelectorError, match="name one beside it"):
        parse_all(["@baseline", "@baseline"])
    assert baseline_for(["f", "", "f"]) == "f"
    with pytest.raises(SelectorError, match="none of the runs"):
        baseline_for(["", ""])
    with pytest.raises(SelectorError, match="several things"):
        baseline_for(["f", "g"])
