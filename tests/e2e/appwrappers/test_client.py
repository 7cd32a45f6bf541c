"""The client's page on AppWrappers, executed."""

from __future__ import annotations

import pytest

from fournos.client import Client
from tests.documents import sections
from tests.e2e.appwrappers.stories import Stories
from tests.e2e.hub import ROOT

PAGE = ROOT / "docs" / "client-kinds.md"


def test_the_page_is_true(
    stories: Stories, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(stories.kubeconfig))
    monkeypatch.setenv("FOURNOS_NAMESPACE", stories.namespace)
    with Client() as client:
        for block in sections(PAGE)["AppWrappers"]:
            exec(compile(block, str(PAGE), "exec"), {"client": client})
    out = capsys.readouterr().out
    assert "Pod hello " in out
    assert "Succeeded hello" in out
    stories.gone()
