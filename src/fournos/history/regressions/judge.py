"""Finds the changes in series: the newest run, slow drift, change points, and reruns that confirm.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Final

from fournos.history.regressions.change_points import (
    MAX_P,
    MIN_EFFECT,
    MIN_HISTORY,
    WINDOW,
    ChangePoint,
    band,
    change_points,
    holm,
    limit,
    noise,
    relative,
)
from fournos.history.regressions.series import Basis, Finding, Point, Series, SeriesState, kind_of
from fournos.insight.values import count

_SHOWN: Final = 12
"""Characters of a digest."""
_MOST: Final = 3
"""Images that are named."""


def other_images(run: Mapping[str, Any], rerun: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the images that differ between the provenance of a run and that of its rerun.

    Containers whose image is known of one of them only are left out.
    """
    before, after = _digests(run), _digests(rerun)
    return tuple(
        f"{name} {before[name][:_SHOWN]} -> {after[name][:_SHOWN]}"
        for name in sorted(before.keys() & after.keys())
        if before[name] != after[name]
    )


def repeats(series: Series, run: str) -> list[float]:
    """Returns the values of the reruns that repeat this run."""
    return [one.value for one in series.points if one.confirms == run and not one.other_images]


def uncounted(series: Series, run: str) -> str:
    """Returns why reruns of this run are not repeats of it; "" if all are."""
    others = [rerun for rerun in series.points if rerun.confirms == run and rerun.other_images]
    if not others:
        return ""
    images = list(dict.fromkeys(image for rerun in others for image in rerun.other_images))
    named = ", ".join(images[:_MOST]) + (" …" if len(images) > _MOST else "")
    do = "does" if len(others) == 1 else "do"
    return f"{count(len(others), 'rerun')} {do} not count, with other images: {named}"


def without_others(points: Iterable[Point]) -> tuple[Point, ...]:
    """Returns the points without reruns that have other images than the run that they should repeat."""
    return tuple(one for one in points if not one.other_images)


def _digests(provenance: Mapping[str, Any]) -> dict[str, str]:
    """Maps containers to the digests of their images, without the names by which a registry has them."""
    images = provenance.get("images")
    found = images if isinstance(images, Mapping) else {}
    named = {
        str(name): str(one.get("imageID") or "") for name, one in found.items() if isinstance(one, Mapping)
    }
    return {name: image.rpartition("@")[2].removeprefix("sha256:") for name, image in named.items() if image}


JUDGED: Final = 200
"""Newest runs of each series that commands, pages, metrics and messages judge: a regression is open for all
of them, or for none."""
MIN_REPEATS: Final = 2
RECENT: Final = 5
"""Newest runs that are compared with a pinned baseline."""


@dataclass(frozen=True, slots=True)
class Short:
    """A series without enough history for a verdict on its newest run."""

    series: str
    kpi_id: str
    points: int
    """Comparable points before the newest run, since the last change."""
    needed: int
    changed: bool = False
    """True if earlier points are of another level: the history begins anew with a change."""

    def __str__(self) -> str:
        return f"not judged yet: {self.counted}"

    @property
    def counted(self) -> str:
        since = " since the change" if self.changed else ""
        return f"{self.points} of {self.needed} runs{since}"


@dataclass(frozen=True, slots=True)
class Report:
    """What is known about all series of one fingerprint."""

    findings: tuple[Finding, ...] = ()
    """By time, the newest first."""
    short: tuple[Short, ...] = ()


@dataclass(frozen=True, slots=True)
class _Level:
    """A series with its accepted change points."""

    series: Series
    lasting: tuple[Point, ...]
    """The points that the change points were found in: without refuted ones, and reruns with other images."""
    changes: tuple[ChangePoint, ...] = field(default=())

    @property
    def plain(self) -> list[Point]:
        """The points of the present level, without repeats."""
        since = self.lasting[self.changes[-1].index].at if self.changes else self.series.points[0].at
        return [point for point in self.series.points if point.at >= since and not point.confirms]


def judge(series: Iterable[Series], baselines: Mapping[str, float] | None = None) -> Report:
    """Judges all series of one fingerprint together.

    `baselines` maps a series to the value of its pinned baseline.
    """
    usable = [one for one in series if one.points]
    levels = _levels(usable)
    findings: list[Finding] = []
    short: list[Short] = []
    for level in levels:
        begins = (0, *(change.index for change in level.changes))
        findings += [
            _change(level, change, change.index - begin)
            for begin, change in zip(begins, level.changes, strict=False)
        ]
        verdict = _newest(level, len(usable))
        if isinstance(verdict, Short):
            short.append(verdict)
        elif verdict:
            findings.append(verdict)
        pinned = (baselines or {}).get(level.series.id)
        if pinned is not None and (drift := _drift(level.series, pinned, len(usable))):
            findings.append(drift)
    findings = _with_recoveries(findings)
    findings.sort(key=lambda found: (found.at, found.run, found.kpi_id, found.series), reverse=True)
    return Report(tuple(findings), tuple(short))


def _with_recoveries(findings: Sequence[Finding]) -> list[Finding]:
    """Names the run with which each finding's series came back, where a later confirmed change did that."""
    steps: dict[str, list[Finding]] = {}
    for finding in sorted(findings, key=lambda finding: finding.at):
        if finding.state is SeriesState.CONFIRMED and finding.basis is not Basis.BASELINE:
            steps.setdefault(finding.series, []).append(finding)

    def recovery(finding: Finding) -> str:
        return next((step.run for step in steps.get(finding.series, ()) if _returns(finding, step)), "")

    return [
        finding if finding.basis is Basis.BASELINE else replace(finding, recovered=recovery(finding))
        for finding in findings
    ]


def _returns(finding: Finding, step: Finding) -> bool:
    """True if a later step in the other direction ends where the series was before, or beyond."""
    if step.at <= finding.at or step.rises == finding.rises:
        return False
    tolerance = MIN_EFFECT * abs(finding.before)
    if finding.rises:
        return step.after <= finding.before + tolerance
    return step.after >= finding.before - tolerance


def _levels(series: Sequence[Series]) -> list[_Level]:
    """Finds the change points of each series, and accepts those that are significant among all of them."""
    lasting = {kpi_series.id: _lasting(kpi_series) for kpi_series in series}
    candidates: dict[str, list[ChangePoint]] = {
        kpi_series.id: change_points([point.value for point in lasting[kpi_series.id]], min_effect=MIN_EFFECT)
        for kpi_series in series
    }
    # Each series is a test, also one without a candidate: hence the entries with p = 1.
    p_values = {f"{name} -": 1.0 for name, points in candidates.items() if not points}
    p_values |= {f"{name} {point.index}": point.p for name, points in candidates.items() for point in points}
    accepted = holm(p_values, MAX_P)
    return [
        _Level(
            kpi_series,
            lasting[kpi_series.id],
            tuple(
                point for point in candidates[kpi_series.id] if f"{kpi_series.id} {point.index}" in accepted
            ),
        )
        for kpi_series in series
    ]


def _lasting(series: Series) -> tuple[Point, ...]:
    """The points without runs that their repeats refute: such an outlier must not begin a level."""
    refuted = set()
    for index, point in enumerate(series.points):
        measured = repeats(series, point.run)
        if len(measured) < MIN_REPEATS:
            continue
        earlier = [one.value for one in series.points[:index] if not one.confirms]
        found = band(earlier[-WINDOW:])
        if found and point.value not in found and median(measured) in found:
            refuted.add(point.run)
    return tuple(point for point in without_others(series.points) if point.run not in refuted)


def _change(level: _Level, change: ChangePoint, earlier: int) -> Finding:
    series, first = level.series, level.lasting[change.index]
    found = _finding(
        series, first, change.before, change.after, SeriesState.CONFIRMED, Basis.CHANGE_POINT, earlier
    )
    return replace(found, p=change.p)


def _newest(level: _Level, kpis: int) -> Finding | Short | None:
    """The verdict on the newest run; None if it is within noise."""
    series, since = level.series, level.plain
    if not since:
        return None
    newest, earlier = since[-1], [point.value for point in since[:-1]]
    noise_band = band(earlier, kpis=kpis)
    if noise_band is None:
        return Short(series.id, series.kpi_id, len(earlier), MIN_HISTORY, bool(level.changes))
    if newest.value in noise_band:
        return None
    measured = repeats(series, newest.run)
    state, basis, after = SeriesState.SUSPECTED, Basis.NEWEST, newest.value
    if len(measured) >= MIN_REPEATS:
        after, basis = median(measured), Basis.REPEATS
        same_side = (after > noise_band.centre) == (newest.value > noise_band.centre)
        state = SeriesState.CONFIRMED if after not in noise_band and same_side else SeriesState.REFUTED
        after = newest.value if state is SeriesState.REFUTED else median([newest.value, *measured])
    return _finding(series, newest, noise_band.centre, after, state, basis, len(earlier))


def _drift(series: Series, pinned: float, kpis: int) -> Finding | None:
    """Compares the newest runs with the pinned baseline."""
    plain = [point for point in series.points if not point.confirms]
    if len(plain) < MIN_HISTORY:
        return None
    recent = plain[-RECENT:]
    now = median(point.value for point in recent)
    # The spread of the newest level: that of all points would contain the change itself.
    spread = noise([point.value for point in plain[-MIN_HISTORY:]]).sigma
    if abs(now - pinned) <= max(limit(kpis) * spread, MIN_EFFECT * abs(pinned)):
        return None
    return _finding(series, recent[0], pinned, now, SeriesState.SUSPECTED, Basis.BASELINE, 1)


def _finding(
    series: Series, first: Point, before: float, after: float, state: SeriesState, basis: Basis, earlier: int
) -> Finding:
    return Finding(
        series=series.id,
        kpi_id=series.kpi_id,
        kind=kind_of(before, after, series.higher_is_better),
        state=state,
        basis=basis,
        run=first.run,
        at=first.at,
        before=before,
        after=after,
        change=relative(before, after),
        unit=series.unit,
        labels=series.labels,
        earlier=earlier,
        uncounted=uncounted(series, first.run),
    )
