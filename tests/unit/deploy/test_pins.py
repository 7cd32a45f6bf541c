"""What is pinned: images by digest, which Dependabot looks at; the second set of versions has its tests."""

from __future__ import annotations

import re

from dev.second_set import ROOT

CONTAINERFILES = sorted(
    path
    for folder in (".", "bundle", "dev/mock-resolve", "tests/fakes/flux")
    for path in (ROOT / folder).glob("Containerfile*")
)
PULLED = re.compile(r"^(?:FROM|ARG BASE=) ?((?!docker\.io/local/)[\w.-]+\.\w+/\S+)", re.MULTILINE)
"""Images under docker.io/local/ are made here."""
BY_VERSION = {"registry.k8s.io/kubectl:v1.34.4"}
"""Their digests were not known when they were written.  The image is for tests only."""


def test_an_image_that_is_pulled_is_named_by_digest() -> None:
    """A tag may mean another image tomorrow."""
    pulled = {image for path in CONTAINERFILES for image in PULLED.findall(path.read_text())}
    assert len(pulled) == 3
    assert {image for image in pulled if not re.search(r":[\w.-]+@sha256:[0-9a-f]{64}$", image)} == BY_VERSION
