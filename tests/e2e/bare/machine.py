"""A machine with nothing on it: Debian, Python, make and certificates, in namespaces of its own.

The mount, pid, uts and ipc namespaces are its own. The network is this machine's: package clients need it,
and a cluster makes a network namespace of its own wherever it runs.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import shlex
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

from devcluster import imagebuild, system
from devcluster.locks import file_lock
from devcluster.namespaces import children
from devcluster.network import NETWORK_LOCK
from devcluster.paths import cache_root
from devcluster.progress import Progress
from devcluster.shell import stream
from devcluster.state import ProcessRef, alive, reference
from tests.e2e.bare import clients

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("python3", "make", "ca-certificates")
HOME = Path("/root")
CHECKOUT = Path("/fournos")
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_IGNORED = (".git", *(line.strip("/") for line in (ROOT / ".gitignore").read_text().split()))


def archive(progress: Progress, today: datetime.date) -> Path:
    """The machine's files as a tar, made once a week, so that Debian's updates arrive; kept in the cache."""
    week = today.isocalendar()
    recipe = f"{imagebuild.DEBIAN_RELEASE} {PACKAGES} {week.year}-{week.week}"
    directory = cache_root() / "bare"
    found = directory / f"{hashlib.sha256(recipe.encode()).hexdigest()[:12]}.tar"
    with file_lock(directory / ".lock", limit=900, what="the making of the bare machine's files"):
        if found.is_file():
            return found
        system.ensure_packages([system.IMAGE_PACKAGES], progress)
        for old in directory.glob("*.tar"):
            old.unlink()
        unfinished = found.with_suffix(".new")  # mmdebstrap asks the name what to write
        with progress.step("Making a Debian with Python and make alone", usual="40 s"):
            words = [*imagebuild.debian(unfinished, PACKAGES)]
            stream(words, on_line=lambda _: None, limit=900, env={"TMPDIR": str(directory)})
        unfinished.replace(found)
    return found


class Machine:
    """Started by `start`, entered by `run`, ended by `stop`; all its files are below `directory`."""

    def __init__(self, directory: Path, files: Path) -> None:
        self.directory = directory
        self.root = directory / "root"
        self.log = directory / "machine.log"
        self._holder: ProcessRef | None = None
        self.root.mkdir()
        with tarfile.open(files) as tar:
            tar.extractall(self.root, filter="fully_trusted")
        shutil.copytree(ROOT, self.root / CHECKOUT.relative_to("/"), ignore=shutil.ignore_patterns(*_IGNORED))
        for name in ("resolv.conf", "hosts"):
            (self.root / "etc" / name).write_bytes((Path("/etc") / name).read_bytes())

    def start(self) -> None:
        script = self.directory / "start.sh"
        ready = self.directory / "ready"
        script.write_text(self._script(ready))
        words = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--propagation"]
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                [*words, "private", "sh", str(script)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._process, self._holder = process, reference(process.pid)
        deadline = time.monotonic() + 20
        while not ready.exists():
            assert process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def run(self, *words: str, limit: float) -> subprocess.CompletedProcess[str]:
        """Runs a command in the checkout, with what a login and the package clients' settings give it."""
        assert self._holder
        (inside,) = children(self._holder)
        settings = {"PATH": SEARCH_PATH, "HOME": str(HOME), **clients.variables(os.environ)}
        environment = [f"{name}={value}" for name, value in settings.items()]
        enter = ["nsenter", "--target", str(inside), "--mount", "--pid", "--uts", "--ipc"]
        shell = ["sh", "-c", f"cd {CHECKOUT} && exec {shlex.join(words)}"]
        return subprocess.run(
            [*enter, "env", "-i", *environment, *shell],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
        )

    def stop(self) -> None:
        """Ends every process of the machine; its mounts go with the last one."""
        assert self._holder
        for pid in children(self._holder):
            os.kill(pid, 9)
        self._process.wait(timeout=30)
        assert not alive(self._holder)

    def _script(self, ready: Path) -> str:
        """Mounts what the machine sees, and makes it the root of everything that runs in it."""
        binds: list[tuple[Path, Path]] = []
        for path in clients.files(os.environ, Path.home()):
            inside = HOME / path.relative_to(Path.home()) if path.is_relative_to(Path.home()) else path
            binds.append((path, inside))
        lines = ["set -e", _mount("--bind", self.root, self.root)]
        lines.append(_mount("-t", "proc", "proc", self._at("/proc")))
        lines += [_mount("--rbind", path, self._at(path)) for path in ("/sys", "/dev")]
        lines.append(_mount("-t", "tmpfs", "run", self._at("/run")))
        # Clusters of both machines choose subnets of one network.
        lines += self._bind(NETWORK_LOCK.parent, NETWORK_LOCK.parent)
        for outside, inside in binds:
            lines += self._bind(outside, inside, "-o", "ro")
        lines += self._cache()
        lines += ["hostname bare", f"cd {self.root}", "mkdir -p .outside", "pivot_root . .outside"]
        lines += [f"touch /.outside{ready}", "umount -l /.outside"]
        lines += ["while :; do sleep 86400 & wait $!; done"]
        return "\n".join(lines) + "\n"

    def _cache(self) -> list[str]:
        """What is compiled already is there; what this machine adds stays its own."""
        kept, inside = cache_root(), self._at(HOME / ".cache/fournos")
        own = [self.directory / name for name in ("cache", "work")]
        for path in (*own, kept):
            path.mkdir(parents=True, exist_ok=True)
        options = f"lowerdir={kept},upperdir={own[0]},workdir={own[1]}"
        return [f"mkdir -p {inside}", _mount("-t", "overlay", "-o", options, "cache", inside)]

    def _bind(self, outside: Path, inside: Path, *options: str) -> list[str]:
        target = self._at(inside)
        make = f"mkdir -p {target}"
        if not outside.is_dir():
            make = f"mkdir -p {self._at(inside.parent)} && touch {target}"
        return [make, _mount("--bind", *options, outside, target)]

    def _at(self, path: str | Path) -> Path:
        return self.root / Path(path).relative_to("/")


def _mount(*words: str | Path) -> str:
    return shlex.join(["mount", *map(str, words)])
