"""Every program that is started is brought by Debian's smallest system, or by a package that we install."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from devcluster import namespaces, system
from devcluster.kernel import NODE_ABILITIES, VETH
from tests.programs import (
    BASE,
    CHOSEN,
    COMPUTED,
    ROOT,
    started_by_python,
    started_by_shell,
)

NATIVE = {**system.BASE_PACKAGES, **system.NODE_PACKAGES}
INSTALLED = {**NATIVE, **system.IMAGE_PACKAGES, **system.RELEASE_PACKAGES}
EVERY_CLUSTER = ("devcluster/network.py", "devcluster/namespaces.py", "devcluster/teardown.py")
"""What a cluster without a node runs, too."""
STARTS = started_by_python("devcluster", "dev", "hacks", "bench")
SCRIPTS = sorted([*ROOT.glob("hack/*.sh"), ROOT / ".ci/run"])


def test_each_program_is_brought_by_something() -> None:
    unknown = {
        f"{start.module}:{start.line} starts {start.program}"
        for start in STARTS
        if start.program not in {*BASE, *CHOSEN, *COMPUTED, *INSTALLED}
    }
    assert not unknown, (
        "Add the program and its package to devcluster/system.py, which installs it, or to tests/programs.py"
        " when the smallest Debian has it."
    )


def test_a_cluster_without_a_node_needs_the_base_packages_alone() -> None:
    beyond = {
        f"{start.module}:{start.line} starts {start.program}"
        for start in STARTS
        if start.module in EVERY_CLUSTER and start.program not in {*BASE, *COMPUTED, *system.BASE_PACKAGES}
    }
    assert not beyond


def test_programs_of_the_table_are_started() -> None:
    """So that the collection cannot be empty without a failure, and the tables hold nothing of the past."""
    started = {start.program for start in STARTS}
    shell = {name for script in SCRIPTS for name in started_by_shell(script.read_text())}
    shell |= started_by_shell(namespaces.init_script(Path("/a"), visible=[], pods=True))
    shell |= {name for line in recipes() for name in started_by_shell(line)}
    assert {
        "modprobe",
        "ip",
        "iptables",
        "nsenter",
        "unshare",
        "sh",
        "mmdebstrap",
        "buildah",
        "ctr",
    } <= started
    assert set(COMPUTED) <= started
    assert set(BASE) <= started | shell
    assert set(CHOSEN) <= started | {"kubectl"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_command_of_a_script_is_brought_by_something(script: Path) -> None:
    assert started_by_shell(script.read_text()) <= {*BASE, *INSTALLED}


def test_each_command_of_a_clusters_first_process_is_brought_by_something() -> None:
    script = namespaces.init_script(Path("/state"), visible=[Path("/var/shown")], pods=False)
    assert started_by_shell(script) <= set(BASE)


def test_each_command_of_a_trial_of_the_kernel_is_brought_by_the_base_packages() -> None:
    """Else its absence would be taken for that of a kernel module."""
    trials = [ability.trial for ability in (VETH, *NODE_ABILITIES)]
    started = {program for trial in trials for program in started_by_shell(trial)}
    assert {"ip", "iptables"} <= started <= {*BASE, *system.BASE_PACKAGES}


def recipes() -> list[str]:
    """The Makefile's commands, with make's variables as the computed paths that they are."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    lines = re.findall(r"^\t@?(.*)", text, re.MULTILINE)
    return [re.sub(r"\$\(\w+\)", "$X", line).replace("$$", "$") for line in lines]


def test_each_command_of_the_makefile_is_brought_by_something() -> None:
    assert {name for line in recipes() for name in started_by_shell(line)} <= set(BASE)


def test_make_finds_the_programs_of_administrators() -> None:
    """A root by Debian's `su` has the PATH of the user before it."""
    words = ["make", "--silent", "--eval", "probe: ; @command -v chroot", "probe"]
    done = subprocess.run(
        words, cwd=ROOT, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    assert done.stdout == "/usr/sbin/chroot\n", done.stderr


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("a; b && c || d | e & f", "abcdef"),
        ("if a x; then b; else c; fi", "abc"),
        ("for x in y z; do a; done", "a"),
        ("X=1 a >b 2>&1 <c d", "a"),
        ('x=$(a "$(b c)"); exec d e', "abd"),
        ("#!/usr/bin/env b\na", ["env", "b", "a"]),
        ("f() { a; }\nf b", "a"),
        ("a \\\n  b # c", "a"),
        ("trap 'a' EXIT; [ b = c ] && ! d", "d"),
        ("{ a && b; } >c 2>&1 || { d; }", "abd"),
    ],
)
def test_the_commands_of_a_script_are_found(script: str, expected: str) -> None:
    assert started_by_shell(script) == set(expected)
