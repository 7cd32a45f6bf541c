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
from collections.abc import Sequence
from pathlib import Path

from devcluster import imagebuild, system
from devcluster.locks import file_lock
from devcluster.namespaces import children
from devcluster.network import NETWORK_LOCK
from devcluster.paths import cache_root
from devcluster.progress import Progress
from devcluster.shell import stream
from devcluster.state import reference
from tests.e2e.bare import clients
from tests.waiting import LIMIT

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("python3", "make", "ca-certificates")
HOME = Path("/root")
CHECKOUT = Path("/fournos")
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_IGNORED = (".git", *(line.strip("/") for line in (ROOT / ".gitignore").read_text().split()))


def archive(progress: Progress, today: datetime.date, packages: Sequence[str] = PACKAGES) -> Path:
    """A Debian with `packages` as a tar in the cache, made once a week, so that Debian's updates arrive."""
    recipe = hashlib.sha256(f"{imagebuild.DEBIAN_RELEASE} {[*packages]}".encode()).hexdigest()
    week = today.strftime("%G-%V")
    directory = cache_root() / "bare"
    found = directory / f"{recipe[:12]}-{week}.tar"
    with file_lock(directory / ".lock", limit=900, what="the making of a bare machine's files"):
        if found.is_file():
            return found
        system.ensure_packages([system.IMAGE_PACKAGES], progress)
        for old in directory.glob("*.tar"):
            if not old.stem.endswith(week):
                old.unlink()
        unfinished = found.with_suffix(".new")  # mmdebstrap asks the name what to write
        with progress.step(f"Making a Debian with {', '.join(packages)} alone", usual="40 s"):
            words = [*imagebuild.debian(unfinished, packages)]
            stream(words, on_line=lambda _: None, limit=900, env={"TMPDIR": str(directory)})
        unfinished.replace(found)
    return found


def unpack(files: Path, root: Path) -> None:
    """Makes the directory `root`: the files of `archive`, and this checkout as a newcomer's clone has it."""
    root.mkdir()
    with tarfile.open(files) as tar:
        tar.extractall(root, filter="fully_trusted")
    ignored = shutil.ignore_patterns(*_IGNORED)
    shutil.copytree(ROOT, root / CHECKOUT.relative_to("/"), symlinks=True, ignore=ignored)


def client_files() -> dict[Path, Path]:
    """Where a machine has what the package clients of this one read: file outside → path inside."""
    home = Path.home()
    return {
        path: HOME / path.relative_to(home) if path.is_relative_to(home) else path
        for path in clients.files(os.environ, home)
    }


class Machine:
    """Started by `start`, entered by `run`, ended by `stop`; all its files are below `directory`."""

    def __init__(self, directory: Path, files: Path) -> None:
        self.directory = directory
        self.root = directory / "root"
        self._holder: subprocess.Popen[bytes] | None = None
        unpack(files, self.root)
        for name in ("/etc/resolv.conf", "/etc/hosts"):
            self._at(name).write_bytes(Path(name).read_bytes())

    def start(self) -> None:
        script, ready, output = (self.directory / name for name in ("start.sh", "ready", "output"))
        script.write_text(self._script(ready))
        # With these tests, however they end, the machine ends, and with its first process all of it.
        words = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--uts", "--ipc", "--fork"]
        words += ["--kill-child", "--propagation", "private", "sh", str(script)]
        with output.open("wb") as log:
            self._holder = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        deadline = time.monotonic() + LIMIT
        while not ready.exists():
            assert self._holder.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.05)

    def run(self, *words: str, limit: float) -> subprocess.CompletedProcess[str]:
        """Runs a command in the checkout, with what a login and the package clients' settings give it."""
        assert self._holder
        (first,) = children(reference(self._holder.pid))
        enter = ["nsenter", "--target", str(first), "--mount", "--pid", "--uts", "--ipc", "env", "-i"]
        settings = {"PATH": SEARCH_PATH, "HOME": str(HOME), **clients.variables(os.environ)}
        enter += [f"{name}={value}" for name, value in settings.items()]
        return subprocess.run(
            [*enter, "sh", "-c", f"cd {CHECKOUT} && exec {shlex.join(words)}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
        )

    def stop(self) -> None:
        """Ends every process of the machine; its mounts go with the last one, and then its files."""
        if self._holder:
            self._holder.kill()
            self._holder.wait(timeout=LIMIT)
        shutil.rmtree(self.directory)

    def _script(self, ready: Path) -> str:
        """Mounts what the machine sees, and makes it the root of everything that runs in it."""
        lines = ["set -e", _mount("--bind", self.root, self.root)]
        lines.append(_mount("-t", "proc", "proc", self._at("/proc")))
        lines += [_mount("--rbind", path, self._at(path)) for path in ("/sys", "/dev")]
        lines.append(_mount("-t", "tmpfs", "run", self._at("/run")))
        # Clusters of both machines choose subnets of one network.
        lines += self._bind(NETWORK_LOCK.parent, NETWORK_LOCK.parent)
        for path, inside in client_files().items():
            lines += self._bind(path, inside, "-o", "ro")
        lines += self._cache()
        lines += ["hostname bare", f"cd {self.root}", "mkdir -p .outside", "pivot_root . .outside"]
        lines += [f"touch /.outside{ready}", "umount -l /.outside"]
        lines += ["while :; do sleep 86400 & wait $!; done"]
        return "\n".join(lines) + "\n"

    def _cache(self) -> list[str]:
        """What is compiled already is there; what this machine adds stays its own."""
        own, work, inside = (
            self.directory / "cache",
            self.directory / "work",
            self._at(HOME / ".cache/fournos"),
        )
        for path in (own, work, inside):
            path.mkdir(parents=True)
        options = f"lowerdir={cache_root()},upperdir={own},workdir={work}"
        return [_mount("-t", "overlay", "-o", options, "cache", inside)]

    def _bind(self, outside: Path, inside: Path, *options: str) -> list[str]:
        target = self._at(inside)
        make = f"mkdir -p {target}"
        if not outside.is_dir():
            make = f"mkdir -p {target.parent} && touch {target}"
        return [make, _mount("--bind", *options, outside, target)]

    def _at(self, path: str | Path) -> Path:
        return self.root / Path(path).relative_to("/")


def _mount(*words: str | Path) -> str:
    return shlex.join(["mount", *map(str, words)])
