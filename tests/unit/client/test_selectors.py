"""How a run of a comparison is named."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from fournos.client.errors import FournosError
from fournos.client.history import AsyncHistory, is_name, labels_of
from fournos.history.records import Detail, Run
from fournos.history.regressions.review import Baseline
from fournos.systems.schedules.names import SCHEDULE_UID_LABEL
from tests.history import a_run, at


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("llama-7b", {}),
        ("0a1b2c3d-0000-0000-0000-000000000001", {}),
        ("@last", {}),
        ("@latest", {}),
        ("@baseline", {}),
        ("team=x", {"team": "x"}),
        ("team==x, model = y,", {"team": "x", "model": "y"}),
        ("example.com/team=x,model=", {"example.com/team": "x", "model": ""}),
    ],
)
def test_a_selector(text: str, labels: dict[str, str]) -> None:
    assert labels_of(text) == labels
    assert is_name(text) == (not labels and not text.startswith("@"))


@pytest.mark.parametrize("text", ["@base", "@", "@last=x", "team!=x", "=x", "team=x,model"])
async def test_what_is_no_selector(text: str) -> None:
    with pytest.raises(FournosError, match=text.rpartition(",")[2]):
        await Recorded({}).select("one", text)


class Recorded(AsyncHistory):
    """Runs by name, each with its fingerprint; the first one is pinned."""

    def __init__(self, fingerprints: dict[str, str]) -> None:
        super().__init__(object(), "perf")
        self.by_name = {name: a_run(fingerprint=text) for name, text in fingerprints.items()}
        self.lists: list[dict[str, Any]] = []

    async def run(self, name: str, **_: Any) -> Detail:
        return Detail(self.by_name[name])

    async def baselines(self, **_: Any) -> list[Baseline]:
        return [Baseline(run, at(0), "ann", "") for run in [*self.by_name.values()][:1]]

    async def runs(self, **filters: Any) -> AsyncIterator[Run]:
        self.lists.append(filters)
        yield a_run(3, labels={SCHEDULE_UID_LABEL: "u"})
        yield a_run()


async def test_labels_and_last_mean_jobs_that_succeeded() -> None:
    history = Recorded({})
    of_a_person, by_label = await history.select("@last", "a=b", owner="ann")
    succeeded = {"kind": "FournosJob", "phase": "Succeeded", "namespace": None}
    assert history.lists == [
        {**succeeded, "owner": "ann", "labels": {}, "limit": None},
        {**succeeded, "owner": (), "labels": {"a": "b"}, "limit": 1},
    ]
    assert (of_a_person.labels, by_label.labels) == ({}, {SCHEDULE_UID_LABEL: "u"})


async def test_a_baseline_needs_a_run_beside_it() -> None:
    history = Recorded({"one": "f", "none": "", "other": "g"})
    one, none = history.by_name["one"], history.by_name["none"]
    assert await history.select("@baseline", "none", "one", "@baseline") == [one, none, one, one]
    assert await history.select() == []
    with pytest.raises(FournosError, match="name one beside it"):
        await history.select("@baseline", "@baseline")
    with pytest.raises(FournosError, match="none of the runs"):
        await history.select("none", "@baseline")
    with pytest.raises(FournosError, match="several things"):
        await history.select("one", "other", "@baseline")
    with pytest.raises(FournosError, match="no run is pinned as the baseline of other"):
        await history.select("other", "@baseline")
