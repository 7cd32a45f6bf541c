"""`make demo` on a Debian as it is installed, with its own kernel: twice to the page, and nothing is left.

`make vm` runs it: half an hour where the machine is emulated.
"""

from __future__ import annotations

import re

import pytest

from dev.demo_jobs import SAMPLES
from fournos.web.local import HOST
from tests.vm.machine import VirtualMachine

pytestmark = pytest.mark.timeout(7200)

FLEET = """
import sys
from urllib.request import HTTPCookieProcessor, build_opener
print(build_opener(HTTPCookieProcessor()).open(sys.argv[1], timeout=120).read().decode())
"""


def page(machine: VirtualMachine, printed: str) -> str:
    (address,) = re.findall(rf"http://{HOST}:\d+/open/\S+", printed)
    done = machine.run("python3", "-c", FLEET, address, limit=180)
    assert done.returncode == 0, done.stdout
    return done.stdout


def ended(printed: str) -> list[str]:
    return re.findall(r"^(demo-[\w-]+): Succeeded$", printed, re.MULTILINE)


def test_the_demonstration_ends_with_jobs_that_succeeded_and_a_page(plain: VirtualMachine) -> None:
    done = plain.run("make", "demo", limit=5400)
    assert done.returncode == 0, done.stdout[-6000:]
    assert len(ended(done.stdout)) == SAMPLES + 1
    shown = page(plain, done.stdout)
    assert "cluster-4" in shown
    assert "demo-lock" in shown


def test_a_second_one_goes_on_with_what_is_there(plain: VirtualMachine) -> None:
    done = plain.run("make", "demo", limit=2400)
    assert done.returncode == 0, done.stdout[-6000:]
    assert len(ended(done.stdout)) == 1
    assert "cluster-4" in page(plain, done.stdout)


def test_its_teardown_leaves_nothing(plain: VirtualMachine) -> None:
    assert plain.traces() != "", "the test must have something to find"
    done = plain.run("make", "--silent", "dev-teardown", limit=600)
    assert done.returncode == 0, done.stdout
    assert plain.traces() == ""
