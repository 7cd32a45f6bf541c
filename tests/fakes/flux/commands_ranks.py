"""Commands about the instance and its ranks: resource, overlay, attributes, shutdown, archives, R, keys."""

from __future__ import annotations

import json
import os
from typing import Any

from . import config, hostlist
from .client import formatted, rpc, show, socket_path
from .options import die, parse, table

_STATES = ("free", "allocated", "down", "drain")


def _ranks() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rpc("resource", "ranks")["ranks"]
    return found


def _state(rank: dict[str, Any]) -> str:
    if not rank["up"]:
        return "down"
    return "allocated" if rank["busy"] else "free"


def _rows(groups: dict[str, list[dict[str, Any]]]) -> list[dict[str, str]]:
    return [
        {
            "state": state,
            "nnodes": str(len(found)),
            "ncores": str(sum(rank["cores"] for rank in found)),
            "ngpus": "0",
            "ranks": hostlist.idset(rank["rank"] for rank in found),
            "nodelist": hostlist.folded(rank["host"] for rank in found),
        }
        for state, found in groups.items()
    ]


_COLUMNS = [
    ("STATE", "state"),
    ("NNODES", "nnodes"),
    ("NCORES", "ncores"),
    ("NGPUS", "ngpus"),
    ("NODELIST", "nodelist"),
]


def resource(words: list[str]) -> int:
    what, rest = (words[0], words[1:]) if words else ("", [])
    options = table("o,format= n,no-header s,states= i,include= v,verbose f,force u,update no-skip-empty")
    parsed = parse(f"resource {what}", rest, options)
    if what == "list":
        groups: dict[str, list[dict[str, Any]]] = {state: [] for state in ("free", "allocated", "down")}
        for rank in _ranks():
            # What is drained is not free, though it is up.
            groups["down" if rank["drained"] is not None else _state(rank)].append(rank)
        wanted = parsed.get("states", "free,allocated,down").split(",")
        groups = {state: found for state, found in groups.items() if state in wanted or "all" in wanted}
    elif what == "status":
        groups = {state: [] for state in ("avail", "avail*", "drain")}
        for rank in _ranks():
            state = "drain" if rank["drained"] is not None else ("avail" if rank["up"] else "avail*")
            groups[state].append(rank)
        groups = {state: found for state, found in groups.items() if found}
    elif what == "drain" and not parsed.rest:
        drained = [rank for rank in _ranks() if rank["drained"] is not None]
        rows = [
            {
                "state": "draining" if r["busy"] else "drained",
                "ranks": str(r["rank"]),
                "nodelist": r["host"],
                "reason": r["drained"],
            }
            for r in drained
        ]
        if parsed.get("format").startswith("{"):
            formatted("resource", rows, parsed.get("format"))
            return 0
        show(rows, [("STATE", "state"), ("RANK", "ranks"), ("REASON", "reason"), ("NODELIST", "nodelist")])
        return 0
    elif what in ("drain", "undrain"):
        if what == "undrain" and not parsed.rest:
            die("resource", "undrain: TARGETS are missing", 2)
        reason = " ".join(parsed.rest[1:])
        rpc("resource", what, targets=parsed.rest[0], reason=reason, force="force" in parsed)
        return 0
    elif what == "info":
        ranks = _ranks()
        print(f"{len(ranks)} Nodes, {sum(rank['cores'] for rank in ranks)} Cores, 0 GPUs")
        return 0
    else:
        die("resource", f"Unknown command: {what}", 2)
    rows = _rows(groups)
    if parsed.get("format").startswith("{"):
        formatted("resource", rows, parsed.get("format"))
    else:
        show(rows, _COLUMNS, header="no-header" not in parsed)
    return 0


def overlay(words: list[str]) -> int:
    what, rest = (words[0], words[1:]) if words else ("", [])
    parsed = parse(
        f"overlay {what}",
        rest,
        table(
            "v,verbose t,timeout= r,rank= s,summary w,wait= d,down no-pretty no-ghost no-color color= L"
            " H,highlight="
        ),
    )
    if what == "status":
        ranks = _ranks()
        down = [rank for rank in ranks if not rank["up"]]
        print(f"0 {ranks[0]['host']}: {'partial' if down else 'full'}")
        for rank in ranks[1:]:
            print(
                f"{'├' if rank is not ranks[-1] else '└'}─ {rank['rank']} {rank['host']}: "
                f"{'full' if rank['up'] else 'lost' if rank['since'] else 'offline'}"
            )
        return 0
    if what == "disconnect" and parsed.rest:
        rpc("overlay", "disconnect", targets=parsed.rest[0])
        return 0
    if what == "lookup" and parsed.rest:
        size = len(ranks := _ranks())
        text = parsed.rest[0]
        if text.replace("-", "").replace(",", "").isdecimal():
            print(hostlist.folded(ranks[rank]["host"] for rank in hostlist.ranks(text, size)))
        else:
            print(hostlist.idset(rank["rank"] for rank in ranks if rank["host"] in hostlist.expand(text)))
        return 0
    die("overlay", f"Unknown command: {what}", 2)
    return 2


def getattr_(words: list[str]) -> int:
    if len(words) != 1:
        die("getattr", "Usage: flux getattr name", 2)
    print(rpc("getattr", "attr", name=words[0])["attrs"][words[0]])
    return 0


def lsattr(words: list[str]) -> int:
    parsed = parse("lsattr", words, table("v,values"))
    for name, value in sorted(rpc("lsattr", "attr")["attrs"].items()):
        print(f"{name:<40}{value}" if "values" in parsed else name)
    return 0


def dmesg(words: list[str]) -> int:
    parse("dmesg", words, table("C,clear c,read-clear n,new f,follow H,human L,color="))
    print("\n".join(rpc("dmesg", "dmesg")["lines"]))
    return 0


def shutdown(words: list[str]) -> int:
    parsed = parse(
        "shutdown", words, table("background skip-gc gc dump= v,verbose quiet= q,quiet y,yes n,no")
    )
    rpc("shutdown", "shutdown", dump=parsed.get("dump"))
    return 0


def proxy(words: list[str]) -> int:
    """flux proxy URI [COMMAND …]"""
    parsed = parse("proxy", words, table("f,force n,nohup reconnect"))
    if not parsed.rest:
        die("proxy", "a target is missing", 2)
    uri, command = parsed.rest[0], parsed.rest[1:] or [os.environ.get("SHELL") or "/bin/bash"]
    if not uri.startswith("local://"):
        die("proxy", f"{uri}: unable to resolve", 1)
    socket_path(uri, "proxy")
    os.environ["FLUX_URI"] = uri
    rpc("proxy", "attr")  # the broker answers
    if len(command) == 1 and " " in command[0]:
        command = ["/bin/sh", "-c", command[0]]
    try:
        os.execvp(command[0], command)
    except OSError as error:
        die("proxy", f"{command[0]}: {error.strerror}", 127)
    return 127


def r(words: list[str]) -> int:
    """flux R encode"""
    if not words or words[0] != "encode":
        die("R", f"Unknown command: {words[0] if words else ''}", 2)
    parsed = parse(
        "R encode", words[1:], table("H,hosts= c,cores= g,gpus= r,ranks= l,local p,property= x,xml=")
    )
    if "local" not in parsed and "cores" not in parsed:
        die("R", "encode: must specify at least one of --cores, --gpus or --local", 2)
    hosts = hostlist.expand(parsed.get("hosts") or os.uname().nodename)
    ids = parsed.get("cores") or f"0-{config.local_cores() - 1}"
    if any(low == high for low, _, high in (part.partition("-") for part in ids.split(","))):
        die("R", f"encode: {ids} is no set of numbers", 1)
    hostlist.numbers(ids)
    print(json.dumps(config.resources(hosts, ids, parsed.get("gpus"))))
    return 0


def _version() -> str:
    return os.environ.get("FLUX_STANDIN_VERSION") or "0.88.0"


def release() -> tuple[int, int]:
    """The version that the stand-in plays: major and minor number."""
    major, minor, *_ = _version().split(".")
    return int(major), int(minor)


def version(words: list[str]) -> int:
    print(f"commands:    \t\t{_version()}\nlibflux-core:\t\t{_version()}", flush=True)
    return 0
