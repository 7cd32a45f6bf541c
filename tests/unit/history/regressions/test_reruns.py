"""A rerun with other images than the run that it should repeat confirms nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fournos.history.regressions.judge import judge, other_images
from fournos.history.regressions.series import Series, SeriesState, group, runs_in_order
from tests.unit.history.regressions.made import noisy, repeated, series

OTHER = ("run/main aaaa -> bbbb",)


def images(**found: str) -> dict[str, Any]:
    return {"images": {f"run/{name}": {"imageID": image} for name, image in found.items()}}


@pytest.mark.parametrize(
    ("run", "rerun", "others"),
    [
        (images(main="a.test/x@sha256:aaaa"), images(main="a.test/x@sha256:aaaa"), ()),
        (images(main="a.test/x@sha256:aaaa"), images(main="mirror.test/x@sha256:aaaa"), ()),
        (images(main="a.test/x@sha256:aaaa"), images(main="a.test/x@sha256:bbbb"), OTHER),
        (
            images(main="sha256:0123456789abcdef", b="sha256:c"),
            images(main="sha256:fedcba9876543210", b="sha256:d"),
            ("run/b c -> d", "run/main 0123456789ab -> fedcba987654"),
        ),
        (images(main="sha256:a"), images(main="sha256:a", sidecar="sha256:b"), ()),
        (images(main="sha256:a"), images(main=""), ()),
        ({}, images(main="sha256:a"), ()),
        ({"images": "nonsense"}, {"images": {"run/main": None}}, ()),
    ],
)
def test_images_are_compared_by_digest(run: Any, rerun: Any, others: tuple[str, ...]) -> None:
    assert other_images(run, rerun) == others


def a_drop(*values: float, others: int) -> Series:
    """A drop with reruns, of which so many, the last ones, have other images."""
    found = repeated(series([*noisy((30, 100)), 60.0]), *values)
    same = len(found.points) - others
    points = [replace(one, other_images=OTHER) for one in found.points[same:]]
    return replace(found, points=(*found.points[:same], *points))


def test_reruns_with_other_images_confirm_nothing() -> None:
    (confirmed,) = judge([a_drop(61, 62, 60, 61, others=0)]).findings
    assert (confirmed.state, confirmed.uncounted) == (SeriesState.CONFIRMED, "")
    (found,) = judge([a_drop(61, 62, 60, 61, others=4)]).findings
    assert (found.state, found.run) == (SeriesState.SUSPECTED, "run-030"), (
        "neither as repeats nor as a change point"
    )
    assert found.uncounted == "4 reruns do not count, with other images: run/main aaaa -> bbbb"


def test_nor_do_they_refute() -> None:
    (found,) = judge([a_drop(100, 101, 99, others=3)]).findings
    assert found.state is SeriesState.SUSPECTED
    (refuted,) = judge([a_drop(100, 101, 99, others=0)]).findings
    assert refuted.state is SeriesState.REFUTED


def test_those_with_the_same_images_count() -> None:
    (found,) = judge([a_drop(61, 62, 100, others=1)]).findings
    assert (found.state, found.uncounted[:24]) == (SeriesState.CONFIRMED, "1 rerun does not count, ")


def test_the_summary_shows_it() -> None:
    one = a_drop(61, 62, others=2)
    (found,) = group(judge([one, replace(one, id="b", kpi_id="b")]).findings, runs_in_order([one]))
    assert str(found).count("2 reruns do not count, with other images") == 1
