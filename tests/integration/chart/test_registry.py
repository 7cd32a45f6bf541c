"""The chart in a container registry: pushed, and taken by its digest."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.go_tools import REGISTRY, ensure
from dev.image import ROOT
from dev.release import CHART
from devcluster.progress import Progress
from tests.integration.chart.conftest import TEMPLATE, run


@pytest.fixture
def registry() -> Iterator[str]:
    """A registry's address."""
    program = ensure(REGISTRY, Progress())
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with subprocess.Popen([program, "-port", str(port)], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr and "port" in process.stderr.readline()
        yield f"127.0.0.1:{port}"
        process.terminate()


def test_it_is_pushed_and_rendered_by_digest(registry: str, helm: Path, tmp_path: Path) -> None:
    packed = run(helm, "package", ROOT / CHART, "--destination", tmp_path)
    (package,) = tmp_path.glob("fournos-*.tgz")
    pushed = run(helm, "push", package, f"oci://{registry}/charts", "--plain-http")
    digest = re.search(r"sha256:[0-9a-f]{64}", pushed.stdout + pushed.stderr)
    assert digest, packed.stderr + pushed.stdout + pushed.stderr
    local = run(helm, *TEMPLATE)
    pulled = f"oci://{registry}/charts/fournos@{digest[0]}"
    remote = run(helm, *TEMPLATE[:2], pulled, "--plain-http", *TEMPLATE[3:])
    assert remote.returncode == 0 and remote.stdout == local.stdout, remote.stderr
    missing = pulled.replace(digest[0], f"sha256:{'0' * 64}")
    assert run(helm, *TEMPLATE[:2], missing, "--plain-http", *TEMPLATE[3:]).returncode != 0
