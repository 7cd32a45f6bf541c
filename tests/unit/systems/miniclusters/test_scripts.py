"""Rendered scripts are accepted by bash and shellcheck; the configuration has the intended values."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fournos.systems.miniclusters import broker, build
from fournos.systems.miniclusters.containers import file_of
from fournos.systems.miniclusters.spec import cluster_of
from tests.unit.systems.miniclusters.objects import SETTINGS, TABLE, cluster, scripts

EXCLUDED = (
    "SC1091",  # what is sourced is made at start
    "SC2034",  # a name of the header may be meant for the user's own code
    "SC2154",  # asFlux comes from a sourced file
    "SC2317",  # a trap and functions are called by other means
    "SC2329",
)


def write(minicluster: dict[str, Any], folder: Path) -> list[Path]:
    """Its scripts, as the pods find them."""
    config_map = build.wanted(minicluster, SETTINGS)[0]
    found = []
    for key, text in config_map["data"].items():
        path = folder / file_of(key)
        path.write_text(text)
        if path.suffix == ".sh":
            found.append(path)
    return found


@pytest.mark.parametrize("name", TABLE)
def test_bash_reads_it(name: str, tmp_path: Path) -> None:
    for path in write(TABLE[name], tmp_path):
        found = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
        assert (found.returncode, found.stderr) == (0, ""), path.name


@pytest.mark.parametrize("name", TABLE)
def test_shellcheck_finds_nothing(name: str, tmp_path: Path) -> None:
    program = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        pytest.skip("shellcheck is not installed: pip install -e .[dev]")
    paths = write(TABLE[name], tmp_path)
    command = [program, "--shell=bash", f"--exclude={','.join(EXCLUDED)}", *map(str, paths)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


_ANYTHING = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=8)
_WORDS = st.text(" ab'\"\\;&|<>#*[]{}~!-=\n", max_size=8)


@settings(max_examples=40)
@given(texts=st.lists(_ANYTHING, min_size=8, max_size=8), words=st.lists(_WORDS, min_size=4, max_size=4))
def test_no_text_of_a_field_breaks_a_script(texts: list[str], words: list[str]) -> None:
    """Fields that are arguments or values, not shell code, may hold any text."""
    wrap, topology, logs, archive, user, python_path, variable, timeout = texts
    submit, flags, prefix, command = words
    data = scripts(
        {
            "command": command,
            "logs": logs,
            "commands": {"prefix": prefix},
            "fluxUser": {"name": user},
        },
        archive={"path": archive},
        flux={
            "wrap": wrap,
            "topology": topology,
            "connectTimeout": timeout,
            "submitCommand": submit,
            "optionFlags": flags,
            "environment": {"A": variable},
            "container": {"pythonPath": python_path},
        },
    )
    for key in ("wait-0", "stop-0", "environment.sh"):
        found = subprocess.run(["bash", "-n"], input=data[key], capture_output=True, text=True, check=False)
        assert (found.returncode, found.stderr) == (0, ""), data[key]


@pytest.mark.parametrize("name", TABLE)
def test_the_brokers_configuration_is_toml(name: str) -> None:
    found = tomllib.loads(broker.toml(cluster_of(TABLE[name], SETTINGS)))
    assert found["bootstrap"]["default_port"] == 8050


def test_the_brokers_configuration() -> None:
    found = tomllib.loads(broker.toml(cluster(size=4, flux={"scheduler": {"queuePolicy": "easy"}})))
    assert found == {
        "access": {"allow-guest-user": True, "allow-root-owner": True},
        "resource": {"path": "/mnt/flux/config/etc/flux/system/R"},
        "bootstrap": {
            "curve_cert": "/mnt/flux/config/curve/curve.cert",
            "default_port": 8050,
            "default_bind": "tcp://eth0:%p",
            "default_connect": "tcp://%h.flux-service:%p",
            "hosts": [{"host": "flux-sample-[0-3]"}],
        },
        "archive": {
            "dbpath": "/mnt/flux/config/var/lib/flux/job-archive.sqlite",
            "period": "1m",
            "busytimeout": "50s",
        },
        "sched-fluxion-qmanager": {"queue-policy": "easy"},
    }


def test_a_configuration_of_the_users_is_taken_as_it_is() -> None:
    text = "[exec]\n# $HOME `x`\n"
    assert scripts(flux={"brokerConfig": text})["broker.toml"] == text


_LEAD = {"name": "flux-sample", "address": "24.123.50.123", "port": 30093}
_BURST = {"clusters": [{"size": 4, "name": "burst-0"}]}


@pytest.mark.parametrize(
    ("spec", "hosts"),
    [
        ({"size": 1}, "flux-sample-[0]"),
        ({"size": 2}, "flux-sample-[0-1]"),
        ({"size": 2, "maxSize": 10}, "flux-sample-[0-9]"),
        ({"size": 4, "flux": {"bursting": _BURST}}, "flux-sample-[0-3],burst-0-[0-3]"),
        (
            {"size": 4, "flux": {"bursting": {"clusters": [{}, {"size": 1}]}}},
            "flux-sample-[0-3],burst-0-[0-3],burst-1-[0]",
        ),
        (
            {"size": 4, "flux": {"leadBroker": _LEAD, "bursting": _BURST}},
            "24.123.50.123,flux-sample-[1-3],burst-0-[0-3]",
        ),
        (
            {"size": 4, "flux": {"bursting": {**_BURST, "leadBroker": {**_LEAD, "size": 1}}}},
            "24.123.50.123,burst-0-[0-3]",
        ),
        (
            {"size": 4, "flux": {"leadBroker": {**_LEAD, "size": 2}, "bursting": _BURST}},
            "24.123.50.123,flux-sample-[1],burst-0-[0-3]",
        ),
        ({"flux": {"bursting": {"hostlist": "a,b-[001-003]"}}}, "a,b-[001-003]"),
        ({"flux": {"leadBroker": {**_LEAD, "hostlist": "a,b-[001-003]"}}}, "a,b-[001-003]"),
    ],
)
def test_hosts(spec: dict[str, Any], hosts: str) -> None:
    assert scripts(**spec)["hostlist"] == hosts


def test_a_bursted_cluster_connects_to_the_address_of_its_lead() -> None:
    found = tomllib.loads(broker.toml(cluster(size=4, flux={"leadBroker": _LEAD, "bursting": _BURST})))
    assert found["bootstrap"]["hosts"] == [
        {
            "host": "24.123.50.123",
            "bind": "tcp://eth0:30093",
            "connect": "tcp://24.123.50.123:30093",
        },
        {"host": "flux-sample-[1-3],burst-0-[0-3]"},
    ]
    assert cluster(flux={"leadBroker": {**_LEAD, "name": "lead"}}).lead == "lead-0"


@pytest.mark.parametrize(
    ("hostlist", "first", "rest"),
    [
        (
            "flux-sample-[0-3],gffw-compute-a-[001-003]",
            "flux-sample-0",
            "flux-sample-[1-3],gffw-compute-a-[001-003]",
        ),
        ("24.123.50.123,gffw-[001-003]", "24.123.50.123", "gffw-[001-003]"),
        ("a-[001-002],b", "a-001", "a-[002],b"),
        ("a-[0,4-5]x,b", "a-0x", "a-[4-5]x,b"),
        ("a-[7]", "a-7", ""),
        ("a", "a", ""),
    ],
)
def test_the_address_is_that_of_the_lists_first_host(hostlist: str, first: str, rest: str) -> None:
    """The page's list has the lead by its name: another entry for its address would shift all ranks."""
    found = tomllib.loads(broker.toml(cluster(size=3, flux={"leadBroker": {**_LEAD, "hostlist": hostlist}})))
    lead, *others = found["bootstrap"]["hosts"]
    assert (lead["host"], lead["connect"]) == (first, "tcp://24.123.50.123:30093")
    assert [entry["host"] for entry in others] == ([rest] if rest else [])


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"size": 4}, None),
        ({"size": 4, "maxSize": 4}, None),
        ({"size": 4, "maxSize": 6}, 4),
        ({"size": 4, "minSize": 2}, 2),
        ({"size": 4, "flux": {"bursting": _BURST}}, 4),
    ],
)
def test_quorum(spec: dict[str, Any], wanted: int | None) -> None:
    assert broker.quorum(cluster(**spec)) == wanted


def test_the_hosts_stay_those_of_the_start() -> None:
    found = TABLE["hello"] | {"status": {"maximumSize": 4}}
    smaller = {**found, "spec": {**found["spec"], "size": 1}}
    assert broker.hostlist(cluster_of(smaller, SETTINGS)) == "flux-sample-[0-3]"
    assert broker.quorum(cluster_of(smaller, SETTINGS)) == 1
