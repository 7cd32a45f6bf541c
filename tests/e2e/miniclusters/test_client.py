"""The client's page on MiniClusters, executed with the image of these tests."""

from __future__ import annotations

import re

import pytest

from fournos.client import Client
from tests.documents import sections
from tests.e2e.hub import ROOT
from tests.e2e.miniclusters.clusters import Clusters

PAGE = ROOT / "docs" / "client-kinds.md"


def test_the_page_is_true(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(clusters.kubeconfig))
    monkeypatch.setenv("FOURNOS_NAMESPACE", clusters.namespace)
    with Client() as client:
        for block in sections(PAGE)["MiniClusters"]:
            local = re.sub(r"ghcr\.io/[^\"]+", clusters.image, block)
            assert local != block
            exec(compile(local, str(PAGE), "exec"), {"client": client})
    assert "2 2" in capsys.readouterr().out
