"""Which reruns repeat a run: those with the same images.  Pure.

Tekton resolves the tags in a Pipeline for each run.  A rerun whose images are others measures something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fournos.history.regressions.series import Point, Series
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
