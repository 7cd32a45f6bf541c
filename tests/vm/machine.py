"""A machine with a kernel of its own: Debian's, with systemd and cgroup version 2, started by qemu.

It needs no KVM, and uses it where there is one. Commands and their output pass through a serial port of the
machine (see agent.py).
"""

from __future__ import annotations

import json
import os
import queue
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from devcluster.versions import chosen
from tests.e2e.bare import clients
from tests.e2e.bare.machine import CHECKOUT, HOME, PACKAGES, SEARCH_PATH, client_files, unpack

DEBIAN = (*PACKAGES, "linux-image-cloud-amd64", "systemd-sysv", "systemd-resolved", "udev", "kmod")
"""What a Debian as it is installed has beside the newcomer's Python, make and certificates."""
PYTHON_PACKAGES = Path("/packages")
MEMORY = "6G"
_DISK = 16 << 30
_SWAP = 1 << 29
_BOOT_LIMIT = 600.0
_ENDED = -1
"""The exit code of a command during which the machine ended: a test need not wait for its limit."""
_KVM = Path("/dev/kvm")
_CPU = Path("/proc/cpuinfo")

_NETWORK = "[Match]\nType=ether\n[Network]\nDHCP=ipv4\n"
_AGENT = """\
[Unit]
After=network-online.target
Wants=network-online.target
[Service]
ExecStart=/usr/bin/python3 /agent.py /dev/virtio-ports/fournos {umask}
[Install]
WantedBy=multi-user.target
"""
_UNITS = ("systemd-networkd", "systemd-networkd-wait-online", "systemd-resolved", "agent")


@dataclass(frozen=True)
class Habits:
    """How the machine differs from Debian's defaults, as other distributions' and other people's do."""

    umask: str = "022"
    mounts: tuple[str, ...] = ()
    """Lines of /etc/fstab."""
    denied: tuple[str, ...] = ()
    """Kernel modules that cannot be loaded."""
    boot: str = ""
    """Words of the kernel's command line."""
    swap: bool = False


PLAIN = Habits()
STRICT = Habits(
    umask="077",
    mounts=("tmpfs /tmp tmpfs noexec,nosuid,nodev,mode=1777 0 0",),
    denied=("ip_tables", "ip6_tables"),
    boot="ipv6.disable=1",
    swap=True,
)
"""No program starts in /tmp, new files are their owner's alone, there is swap, no IPv6, and no iptables but
that of nftables."""


def has_kvm() -> bool:
    """Returns whether qemu can use KVM: the device without the processor's extensions boots no machine."""
    return os.access(_KVM, os.R_OK | os.W_OK) and bool(re.search(r"\b(vmx|svm)\b", _CPU.read_text()))


@dataclass(frozen=True)
class Done:
    """A command that has ended: its exit code, and what it printed on both streams."""

    returncode: int
    stdout: str


class VirtualMachine:
    """Made by `install`, started by `start`, used by `run`, ended by `stop`.

    All its files are below `directory`. The commands and their output are written to `log`.
    """

    def __init__(self, directory: Path, habits: Habits, log: TextIO) -> None:
        self.directory = directory
        self.root = directory / "root"
        self._disk, self._swap = directory / "disk", directory / "swap"
        self.habits = habits
        self._log = log
        self._started = time.monotonic()
        self._process: subprocess.Popen[str] | None = None
        self._messages: queue.SimpleQueue[str | int | None] = queue.SimpleQueue()

    def install(self, files: Path, handed_in: Mapping[Path, Path]) -> None:
        """Makes the machine's disk: a Debian, what an installer writes, this checkout, its built programs.

        `handed_in` are more files and directories: path outside → path inside.
        """
        unpack(files, self.root)
        self._configure()
        programs = {chosen().cache(): HOME / ".cache/fournos" / chosen().sources_hash()}
        for outside, inside in {**client_files(), **programs, **handed_in}.items():
            _copy(outside, self._at(inside))
        for path, size in ((self._disk, _DISK), (self._swap, _SWAP)):
            with path.open("wb") as file:
                file.truncate(size)
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", self.root, self._disk], check=True, timeout=300)

    def start(self) -> None:
        """Boots the machine. Raises AssertionError if it does not answer within some minutes."""
        # With these tests, however they end, the machine ends.
        words = ["setpriv", "--pdeathsig", "KILL", *self._qemu()]
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()
        answer = self._next(time.monotonic() + _BOOT_LIMIT)
        assert answer is None, f"the machine does not answer: {self._console()}"
        self._note("the machine has started")
        if self.habits.swap:
            self.run("sh", "-c", "mkswap /dev/vdb && swapon /dev/vdb", limit=60)

    def run(self, *words: str, limit: float, environment: dict[str, str] | None = None) -> Done:
        """Runs a command in the checkout, with what a login and the package clients' settings give it."""
        assert self._process
        assert self._process.stdin
        settings = {"PATH": SEARCH_PATH, "HOME": str(HOME), **clients.variables(os.environ)}
        self._note(f"$ {' '.join(words)}")
        message = json.dumps([words, {**settings, **(environment or {})}, str(CHECKOUT)])
        self._process.stdin.write(f"{message}\n")
        self._process.stdin.flush()
        output, deadline = "", time.monotonic() + limit
        while not isinstance(answer := self._next(deadline), int):
            assert answer is not None, f"{words} did not end within {limit:g} s:\n{output}"
            output += answer
            self._note(answer.rstrip("\n"))
        self._note(f"exit code {answer}")
        return Done(answer, output)

    def traces(self) -> str:
        """What a cluster may leave: records, namespaces, interfaces, cgroups, mounts, processes, rules."""
        script = f"""
            ls -A {HOME}/.local/state/fournos/clusters
            ip netns
            ls /sys/class/net | grep fournos
            find /sys/fs/cgroup -name 'fournos-*'
            grep fournos/clusters /proc/mounts
            grep -lz FOURNOS_DEVCLUSTER= /proc/[0-9]*/environ
            iptables-save | grep -E 'fournos|KUBE'"""
        return self.run("sh", "-c", f"({script}) 2>/dev/null", limit=60).stdout

    def stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait(timeout=60)

    def _qemu(self) -> list[str]:
        (kernel,) = (self.root / "boot").glob("vmlinuz-*")
        (initrd,) = (self.root / "boot").glob("initrd.img-*")
        return [
            *("qemu-system-x86_64", "-machine", "q35", "-m", MEMORY, "-smp", str(os.cpu_count() or 1)),
            *(("-accel", "kvm") if has_kvm() else ("-accel", "tcg,thread=multi")),
            *("-cpu", "max"),
            *("-kernel", str(kernel), "-initrd", str(initrd), "-no-reboot", "-display", "none"),
            *("-append", f"root=/dev/vda rw console=ttyS0 {self.habits.boot}"),
            *("-drive", f"file={self._disk},format=raw,if=virtio,cache=unsafe"),
            *("-drive", f"file={self._swap},format=raw,if=virtio,cache=unsafe"),
            *("-nic", "user,model=virtio-net-pci", "-serial", f"file:{self.directory / 'console'}"),
            *("-device", "virtio-serial", "-device", "virtserialport,chardev=port,name=fournos"),
            *("-chardev", "stdio,id=port,signal=off"),
        ]

    def _configure(self) -> None:
        """Writes what an installer writes, the agent, and the habits."""
        etc, habits = self._at(Path("/etc")), self.habits
        (etc / "fstab").write_text("\n".join(["/dev/vda / ext4 defaults 0 1", *habits.mounts, ""]))
        (etc / "hostname").write_text("stranger\n")
        (etc / "systemd/network/ether.network").write_text(_NETWORK)
        (etc / "resolv.conf").unlink(missing_ok=True)
        (etc / "resolv.conf").symlink_to("/run/systemd/resolve/stub-resolv.conf")
        (etc / "modprobe.d/denied.conf").write_text(
            "".join(f"install {module} /bin/false\n" for module in habits.denied)
        )
        shutil.copy(Path(__file__).with_name("agent.py"), self._at(Path("/agent.py")))
        if habits.umask == "077":
            self._inside("chmod", "--recursive", "go=", str(CHECKOUT))
        (etc / "systemd/system/agent.service").write_text(_AGENT.format(umask=habits.umask))
        self._inside("systemctl", "enable", "--quiet", *_UNITS)

    def _inside(self, *words: str) -> None:
        """Runs a program of the machine before its start."""
        subprocess.run(["chroot", self.root, *words], check=True, capture_output=True, timeout=60)

    def _read(self) -> None:
        assert self._process
        assert self._process.stdout
        for line in self._process.stdout:
            self._messages.put(json.loads(line))
        self._messages.put(_ENDED)

    def _next(self, deadline: float) -> str | int | None:
        """The next message of the machine; raises AssertionError where none comes until the deadline."""
        try:
            return self._messages.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise AssertionError(f"the machine does not answer:\n{self._console()}") from None

    def _console(self) -> str:
        console = self.directory / "console"
        return console.read_text(errors="replace")[-3000:] if console.exists() else ""

    def _note(self, text: str) -> None:
        self._log.write(f"{time.monotonic() - self._started:7.1f} s  {text}\n")
        self._log.flush()

    def _at(self, path: Path) -> Path:
        return self.root / path.relative_to("/")


def _copy(outside: Path, inside: Path) -> None:
    """Puts a copy in place of what is there, with files for links, which would lead out of the machine."""
    inside.parent.mkdir(parents=True, exist_ok=True)
    if outside.is_dir():
        shutil.rmtree(inside, ignore_errors=True)
        shutil.copytree(outside, inside, ignore_dangling_symlinks=True)
    else:
        shutil.copy2(outside, inside)
