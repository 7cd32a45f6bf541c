"""The sets of versions of a cluster's programs, by name. A set is one go.mod, its go.sum and nothing else."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from devcluster.errors import DevclusterError
from devcluster.paths import GO_SOURCES, cache_root

SETS = {"2025": "go.mod", "2026": "2026.mod"}
"""Name → file of the set's versions in GO_SOURCES. Its sums are in the file beside it that ends in .sum."""
DEFAULT = "2026"
FIRST = "2025"
"""The set of clusters that were recorded before there were several."""
VARIABLE = "FOURNOS_VERSIONS"
"""The environment variable that names the set where no option does."""

_KUBERNETES, _KUEUE, _TEKTON = "k8s.io/kubernetes", "sigs.k8s.io/kueue", "github.com/tektoncd/pipeline"


@dataclass(frozen=True)
class Versions:
    """A set of versions. `Versions.named` returns a known one."""

    name: str

    @classmethod
    def named(cls, name: str) -> Versions:
        """Raises DevclusterError, with the known sets, for an unknown name."""
        if name not in SETS:
            known = "; ".join(str(cls(each)) for each in SETS)
            raise DevclusterError(f"There is no set of versions {name!r}", hint=f"The sets are {known}.")
        return cls(name)

    def __str__(self) -> str:
        return f"{self.name} (Kubernetes {self.kubernetes}, Kueue {self.kueue}, Tekton {self.tekton})"

    @property
    def module_file(self) -> str:
        """The name of the file in GO_SOURCES that takes the place of go.mod."""
        return SETS[self.name]

    @property
    def kubernetes(self) -> str:
        """Such as v1.34.4."""
        return self._required(_KUBERNETES)

    @property
    def kueue(self) -> str:
        return self._required(_KUEUE)

    @property
    def tekton(self) -> str:
        return self._required(_TEKTON)

    @property
    def go(self) -> tuple[int, ...]:
        """The oldest Go toolchain that builds the set, such as (1, 26, 4)."""
        line = re.search(r"^go (\S+)$", self._module, re.MULTILINE)
        assert line, f"{self.module_file} names no version of Go"
        return tuple(int(part) for part in line[1].split("."))

    def sources_hash(self) -> str:
        """A hash that identifies the programs: it changes with each pinned version and own program."""
        digest = hashlib.sha256()
        sums = Path(self.module_file).with_suffix(".sum").name
        programs = sorted(str(path.relative_to(GO_SOURCES)) for path in GO_SOURCES.rglob("*.go"))
        for name in (self.module_file, sums, *programs):
            digest.update(name.encode() + b"\0" + (GO_SOURCES / name).read_bytes() + b"\0")
        return digest.hexdigest()[:12]

    def cache(self) -> Path:
        """The cache directory with the set's `bin`, `images` and `manifests`."""
        return cache_root() / self.sources_hash()

    @cached_property
    def _module(self) -> str:
        return (GO_SOURCES / self.module_file).read_text()

    def _required(self, module: str) -> str:
        line = re.search(rf"^\t{re.escape(module)} (v\S+)$", self._module, re.MULTILINE)
        assert line, f"{self.module_file} does not require {module}"
        return line[1]


def asked() -> str:
    """Returns the name in the environment, which may be of no set, else that of the default set."""
    return os.environ.get(VARIABLE) or DEFAULT


def chosen() -> Versions:
    """Returns the set that `asked` names. Raises DevclusterError if there is none."""
    return Versions.named(asked())
