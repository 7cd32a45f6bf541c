"""Exactly one writer, and a warning where its lock means little."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fournos.history.store.errors import StoreUsageError
from fournos.history.store.lockfile import WriterLock, network_file_system, warn_of_network

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /data rw,relatime - nfs4 server:/export rw
31 30 8:2 / /data/local rw,relatime shared:5 master:2 - xfs /dev/sdb rw
32 22 0:50 / /with\\040blank rw - fuse.sshfs host: rw
33 22 0:51 / /nfs rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/history.db", ""),
        ("/data/history.db", "nfs4"),
        ("/data/local/history.db", ""),
        ("/datafile/history.db", ""),
        ("/with blank/history.db", "fuse.sshfs"),
        ("/nfs/history.db", ""),
    ],
)
def test_the_file_system_of_a_path(tmp_path: Path, path: str, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert network_file_system(Path(path), mounts) == kind


def test_a_system_without_a_list_of_mounts(tmp_path: Path) -> None:
    assert network_file_system(tmp_path, tmp_path / "missing") == ""


def test_a_network_file_system_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("fournos.history.store.lockfile.network_file_system", lambda _path: "nfs4")
    warn_of_network(Path("/data/history.db"))
    assert "/data/history.db is on a network file system (nfs4)" in caplog.text


def test_a_second_writer_is_refused_by_name(tmp_path: Path) -> None:
    database = tmp_path / "history.db"
    refused = pytest.raises(StoreUsageError, match=rf"written by another process \(process {os.getpid()} on")
    with WriterLock(database), refused:
        WriterLock(database)
    WriterLock(database).release()
