"""The configuration of a broker: attributes (`-S`), the TOML configuration, the resource set R."""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import struct
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import hostlist

ATTRIBUTES = frozenset(
    [
        f"broker.{name}"
        for name in (
            "quorum",
            "quorum-timeout",
            "rc1_path",
            "rc2_none",
            "rc3_path",
            "boot-method",
            "cleanup-timeout",
            "exit-norestart",
            "shutdown-timeout",
            "critical-ranks",
            "sd-notify",
            "exit-restart",
        )
    ]
    + [f"content.{name}" for name in ("backing-module", "dump", "restore", "hash")]
    + [
        f"log-{name}"
        for name in (
            "critical-level",
            "filename",
            "forward-level",
            "level",
            "ring-size",
            "stderr-level",
            "stderr-mode",
        )
    ]
    + [
        f"tbon.{name}"
        for name in (
            "connect_timeout",
            "fanout",
            "interface-hint",
            "tcp_user_timeout",
            "topo",
            "torpid_max",
            "torpid_min",
            "zmq_io_threads",
            "zmqdebug",
        )
    ]
    + ["config.path", "cron.directory", "hostlist", "instance-level", "jobid", "local-uri", "parent-uri"]
    + ["parent-kvs-namespace", "rank", "rundir", "rundir-cleanup", "security.owner", "size", "statedir"]
    + ["statedir-cleanup", "version"]
)
SECTIONS = frozenset(
    [
        "access",
        "archive",
        "bootstrap",
        "content",
        "content-sqlite",
        "cron",
        "exec",
        "heartbeat",
        "ingest",
        "job-exec",
        "job-manager",
        "kvs",
        "policy",
        "queues",
        "resource",
        "sched-fluxion-qmanager",
        "sched-fluxion-resource",
        "sched-simple",
        "systemd",
        "tbon",
    ]
)


_SIOCGIFADDR = 0x8915


class ConfigError(Exception):
    """The broker does not start."""


def duration(text: str) -> float:
    """Seconds of `5s`, `100ms`, `1m`, `2h`, `1d` (RFC 23).  Raises ConfigError."""
    match = re.fullmatch(r"([0-9.]+)(ms|s|m|h|d)?", text)
    if match is None:
        raise ConfigError(f"invalid Flux standard duration: {text!r}")
    return float(match[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2] or "s"]


def load(path: str) -> dict[str, Any]:
    """A TOML file, or all *.toml of a folder.  Raises ConfigError."""
    found: dict[str, Any] = {}
    if not path:
        return found
    where = Path(path)
    files = sorted(where.glob("*.toml")) if where.is_dir() else [where]
    for file in files:
        try:
            parsed = tomllib.loads(file.read_text())
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{file}: {error}") from None
        unknown = set(parsed) - SECTIONS
        if unknown:
            raise ConfigError(f"{file}: unknown section [{sorted(unknown)[0]}]")
        for section, content in parsed.items():
            found.setdefault(section, {}).update(content)
    return found


@dataclass(frozen=True)
class Member:
    """A rank and how it is reached."""

    rank: int
    host: str
    bind: str = ""
    connect: str = ""

    @property
    def address(self) -> tuple[str, int]:
        match = re.fullmatch(r"tcp://\[?([^\]]+?)\]?:([0-9]+)", self.connect)
        if match is None:
            raise ConfigError(f"unusable connect address {self.connect!r} of {self.host}")
        return match[1], int(match[2])


@dataclass
class Boot:
    rank: int = 0
    members: list[Member] = field(default_factory=list)
    certificate: str = ""


def boot(config: Mapping[str, Any], *, hostname: str) -> Boot:
    """From [bootstrap]: without one, an instance of one rank.  Raises ConfigError."""
    section = config.get("bootstrap")
    if section is None:
        return Boot(0, [Member(0, hostname)])
    unknown = set(section) - {
        "curve_cert",
        "default_port",
        "default_bind",
        "default_connect",
        "hosts",
        "enable_ipv6",
    }
    if unknown:
        raise ConfigError(f"Config file error [bootstrap]: unknown key {sorted(unknown)[0]}")
    port = section.get("default_port", 8050)
    members: list[Member] = []
    for entry in section.get("hosts", []):
        if set(entry) - {"host", "bind", "connect", "parent"}:
            raise ConfigError(f"Config file error [bootstrap]: hosts entry {entry} has unknown keys")
        try:
            names = hostlist.expand(entry["host"])
        except (KeyError, hostlist.FormatError) as error:
            raise ConfigError(f"Config file error [bootstrap]: bad hosts entry: {error}") from None
        for name in names:
            if any(name == member.host for member in members):
                raise ConfigError(f"Config file error [bootstrap]: {name} is listed twice")
            bind, connect = (
                entry.get(key, section.get(f"default_{key}", "")).replace("%p", str(port)).replace("%h", name)
                for key in ("bind", "connect")
            )
            members.append(Member(len(members), name, bind, connect))
    for member in members:
        if member.host == hostname:
            return Boot(member.rank, members, str(section.get("curve_cert", "")))
    raise ConfigError(f"Config file error [bootstrap]: {hostname} not found in hosts")


def bind_address(member: Member) -> tuple[str, int]:
    """`tcp://eth0:8050` is the address of that interface.  Raises ConfigError."""
    match = re.fullmatch(r"tcp://(.+):([0-9]+)", member.bind)
    if match is None:
        raise ConfigError(f"unusable bind address {member.bind!r}")
    host, port = match[1], int(match[2])
    if host == "*" or re.fullmatch(r"[0-9.]+", host):
        return ("0.0.0.0" if host == "*" else host), port
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", host.encode()[:15]))
        except OSError:
            raise ConfigError(f"no interface {host} to bind to") from None
    return socket.inet_ntoa(answer[20:24]), port


# --- R --------------------------------------------------------------------------------------------------


def local_cores() -> int:
    return len(os.sched_getaffinity(0))


def cores(config: Mapping[str, Any], members: list[Member]) -> dict[int, int]:
    """rank -> cores, from [resource] path, else what this machine has.  Raises ConfigError."""
    path = (config.get("resource") or {}).get("path")
    if not path:
        return {member.rank: local_cores() for member in members}
    try:
        resources = json.loads(Path(path).read_text())
        execution = resources["execution"]
        hosts = [host for part in execution["nodelist"] for host in hostlist.expand(part)]
        found = {}
        for entry in execution["R_lite"]:
            for rank in hostlist.ranks(entry["rank"], len(hosts)):
                found[rank] = len(hostlist.numbers(entry["children"]["core"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"resource.path: {path}: {error}") from None
    if [member.host for member in members] != hosts:
        raise ConfigError(f"resource.path: {path}: its hosts are not those of [bootstrap]")
    return found


def resources(hosts: list[str], core_ids: str, gpu_ids: str = "") -> dict[str, Any]:
    """R of hosts that are all alike (RFC 20)."""
    children = {"core": core_ids, **({"gpu": gpu_ids} if gpu_ids else {})}
    return {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": hostlist.idset(range(len(hosts))), "children": children}],
            "starttime": 0,
            "expiration": 0,
            "nodelist": [hostlist.folded(hosts)],
        },
    }
