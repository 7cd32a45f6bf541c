"""The page of the demonstration: one address for each cluster, one process at a time."""

from __future__ import annotations

import asyncio
import socket
import stat
from pathlib import Path

import pytest

from dev import page
from dev.page import Served, free_port
from devcluster.state import ProcessRef
from fournos.web.local import HOST


def test_the_preferred_port_is_taken_if_it_is_free() -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        port = other.getsockname()[1]
    assert free_port(port) == port


def test_a_port_in_use_is_replaced_by_a_free_one() -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        assert free_port(other.getsockname()[1]) != other.getsockname()[1]


def test_port_and_token_are_kept_for_the_next_start_readable_by_the_owner_alone(tmp_path: Path) -> None:
    served = Served(8470, "a-token", ProcessRef(42, 7))
    page._write(tmp_path, served)
    assert page._read(tmp_path) == served
    assert stat.S_IMODE((tmp_path / "page.json").stat().st_mode) == 0o600
    assert served.address == f"http://{HOST}:8470/open/a-token"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"port": 1, "token": "t", "process": {"id": 1}}'])
def test_a_file_of_another_version_is_no_page(tmp_path: Path, text: str) -> None:
    (tmp_path / "page.json").write_text(text)
    assert page._read(tmp_path) is None


@pytest.mark.parametrize("after", [None, Served(8470, "a-token", ProcessRef(43, 8))])
async def test_the_process_ends_with_the_record_or_when_another_serves(
    tmp_path: Path, after: Served | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "_LOOK", 0)
    served = Served(8470, "a-token", ProcessRef(42, 7))
    page._write(tmp_path, served)
    waiting = asyncio.create_task(page._replaced(tmp_path, served))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    if after is None:
        (tmp_path / "page.json").unlink()
    else:
        page._write(tmp_path, after)
    await waiting


def test_the_page_is_of_the_demonstration_whatever_the_terminal_is_set_to() -> None:
    assert page._without_settings({"KUBECONFIG": "/other", "PATH": "/bin"}) == {"PATH": "/bin"}
