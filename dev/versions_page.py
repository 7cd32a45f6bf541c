"""Writes the reference page of the versions that the tests run on, from what pins these versions.

python -m dev.versions_page            write docs/reference/versions.md
python -m dev.versions_page --check    exit 1 and show a diff if the file differs
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from dev.generated import write_or_check
from dev.go_tools import HELM, GoTool
from dev.second_set import OTHER, WITH_PODS, WITHOUT_PODS
from devcluster.versions import DEFAULT, Versions
from fournos.engine.api.required import TEKTON, RequiredApi
from fournos.engine.queueing.kinds import KUEUE
from fournos.engine.runtime.preflight import MIN_KUBERNETES

PAGE: Final = "docs/reference/versions.md"
ROOT: Final = Path(__file__).resolve().parents[1]
_INTRODUCTION: Final = """\
# Versions

<!-- Generated from what pins the versions by `python -m dev.versions_page`. Do not edit. -->

The versions on which the tests run. What else should work, and what was not tested:
[Versions](../fournos.md#versions).

"""
_OTHER_TESTS: Final = """\
## Tests on Kubernetes {kubernetes}

`make test` runs all tests on the default set of versions. `make test-versions` runs
tests of these files on the set `{name}`:

"""


def page(root: Path = ROOT) -> str:
    """Returns Markdown: what the operators need, what tests ran on, and the tests of the older set."""
    newest, other = Versions.named(DEFAULT), Versions.named(OTHER)
    rows = [
        ("Kubernetes", f"{_dotted(MIN_KUBERNETES)} or newer", newest.kubernetes, other.kubernetes),
        ("Kueue", _api(KUEUE), newest.kueue, other.kueue),
        ("Tekton Pipelines", _api(TEKTON), newest.tekton, other.tekton),
        ("Python", _python(root), f"unit tests: {', '.join(_pythons(root))}", ""),
        ("Helm, for the chart", "", _pinned(HELM), ""),
    ]
    head = ("", "needed", "all tests", "some tests")
    tests = sorted({test.partition("::")[0] for test in (*WITHOUT_PODS, *WITH_PODS)})
    title = _OTHER_TESTS.format(kubernetes=_plain(other.kubernetes), name=other.name)
    return _INTRODUCTION + _table(head, rows) + "\n" + title + "".join(f"- `{test}`\n" for test in tests)


def _api(api: RequiredApi) -> str:
    return f"serves `{api.group}/{api.version}`; else {api.fix}"


def _dotted(version: Iterable[int]) -> str:
    return ".".join(map(str, version))


def _plain(version: str) -> str:
    return version.removeprefix("v")


def _python(root: Path) -> str:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return f"{str(project['requires-python']).removeprefix('>=')} or newer"


def _pythons(root: Path) -> list[str]:
    """Returns the versions of Python on which continuous integration runs the unit tests."""
    workflow: Any = yaml.safe_load((root / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
    return [str(version) for version in workflow["jobs"]["unit"]["strategy"]["matrix"]["python"]]


def _pinned(tool: GoTool) -> str:
    module = tool.package.partition("/cmd/")[0]
    required = (tool.sources / "go.mod").read_text(encoding="utf-8")
    version = re.search(rf"^\s*{re.escape(module)} (v\S+)", required, re.MULTILINE)
    assert version, f"{tool.sources}/go.mod does not require {module}"
    return version[1]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_plain(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    return write_or_check("dev.versions_page", (__doc__ or "").split("\n")[0], PAGE, page(), arguments)


if __name__ == "__main__":
    sys.exit(main())
