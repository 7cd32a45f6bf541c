"""`make lock` keeps the pins: the lock files hold what pyproject.toml requires, and no more."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-runtime.lock")


def pins(path: Path) -> list[str]:
    """Hashes left out: a release may get more files."""
    return re.findall(r"^\S+==[^\s\\]+", path.read_text(), re.MULTILINE)


def test_the_locks_are_those_of_pyproject(tmp_path: Path) -> None:
    (tmp_path / "hack").mkdir()
    for name in ("hack/lock.sh", "pyproject.toml", *LOCKS):
        shutil.copy(ROOT / name, tmp_path / name)
    done = subprocess.run(
        [tmp_path / "hack/lock.sh"], capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    for name in LOCKS:
        assert pins(tmp_path / name) == pins(ROOT / name)
        assert len(pins(ROOT / name)) > 10


def test_a_package_is_pinned_with_the_extras_that_others_require() -> None:
    """Else pip takes the newest release of `coverage[toml]`, whatever the pin of `coverage` says."""
    locked = [Requirement(pin) for pin in pins(ROOT / "requirements.lock")]
    extras = {pin.name: pin.extras for pin in locked}
    required = {
        (requirement.name.lower(), extra)
        for pin in locked
        for requirement in map(Requirement, distribution(pin.name).requires or ())
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        for extra in requirement.extras
    }
    assert required
    assert {(name, extra) for name, extra in required if extra not in extras[name]} == set()
