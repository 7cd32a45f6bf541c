"""A real browser for tests of the page: Debian's Chromium."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from devcluster.errors import NotSupportedError
from devcluster.progress import Progress
from devcluster.system import BROWSER_PACKAGES, ensure_packages


def program() -> Path:
    """Returns Chromium; Debian's package is installed if there is none."""
    if shutil.which("chromium") is None:
        ensure_packages([BROWSER_PACKAGES], Progress())
    if (found := shutil.which("chromium")) is None:
        raise NotSupportedError("Chromium is not found", hint="Install the package chromium.")
    return Path(found)


def arguments() -> list[str]:
    """Returns what Chromium needs here: its sandbox refuses to run as root."""
    return ["--no-sandbox"] if os.geteuid() == 0 else []
