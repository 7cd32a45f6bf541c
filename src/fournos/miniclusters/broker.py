"""The brokers' configuration: hosts, quorum, broker.toml and the options of the command line.

Formats are flux-core's (hostlist: its RFC 29; broker.toml: flux-config-bootstrap(5) and its siblings).
"""

from __future__ import annotations

import json
import re
from typing import Final

from fournos.miniclusters.cluster import Cluster

PORT: Final = 8050
_FANOUT: Final = 256
_ERRORS: Final = 3
"""The log level at which a broker that cannot start still shows why."""


def _range(name: str, first: int, count: int) -> str:
    """`count` hosts of this name from index `first` on."""
    last = first + count - 1
    return f"{name}-[{first}]" if last == first else f"{name}-[{first}-{last}]"


def _own_hosts(cluster: Cluster) -> list[str]:
    """The hosts of the cluster that has the lead broker, which comes first."""
    lead = cluster.spec.flux.lead
    if lead is None:
        return [_range(cluster.name, 0, cluster.maximum)]
    others = (lead.size or cluster.maximum) - 1
    return [lead.address, *([_range(lead.name, 1, others)] if others > 0 else [])]


def hostlist(cluster: Cluster) -> str:
    """All hosts by rank: the same on every cluster of a bursting instance, but for the lead's address."""
    flux = cluster.spec.flux
    if flux.hostlist:
        return flux.hostlist
    bursted = [
        _range(other.name or f"burst-{index}", 0, other.size or cluster.spec.size)
        for index, other in enumerate(flux.bursting.clusters)
    ]
    return ",".join((*_own_hosts(cluster), *bursted))


def quorum(cluster: Cluster) -> int | None:
    """How many brokers must be up for the command to start; None: all of them."""
    if cluster.spec.min_size:
        return cluster.spec.min_size
    burst = bool(cluster.spec.flux.bursting.clusters or cluster.spec.flux.hostlist or cluster.bursted)
    if cluster.maximum == cluster.spec.size and not burst:
        return None
    return cluster.spec.size


_FIRST_HOST: Final = re.compile(r"([^,\[]*)(?:\[(\d+)(?:-(\d+))?(,[^\]]*)?\]([^,]*))?(?:,(.*))?", re.DOTALL)
"""The first host of a list: text, a set of numbers, text; then the others."""


def _first_host(hosts: str) -> tuple[str, str]:
    """The first host of a list, and the list of the others."""
    match = _FIRST_HOST.fullmatch(hosts)
    if match is None or match[2] is None:
        first, _, others = hosts.partition(",")
        return first, others
    before, low, high, more, after, others = match.groups(default="")
    rest = ""
    if high and int(high) > int(low):
        rest = f"{int(low) + 1:0{len(low)}d}" + (f"-{high}" if int(high) > int(low) + 1 else "")
    numbers = f"{rest}{more}".removeprefix(",")
    left = f"{before}[{numbers}]{after}" if numbers else ""
    return f"{before}{low}{after}", ",".join(filter(None, (left, others)))


def _hosts(cluster: Cluster) -> list[dict[str, str]]:
    """Entries of [bootstrap] hosts: the lead broker of another cluster, which comes first, has an address of
    its own."""
    lead, everything = cluster.spec.flux.lead, hostlist(cluster)
    if lead is None:
        return [{"host": everything}]
    host, rest = _first_host(everything)
    first = {
        "host": host,
        "bind": f"tcp://{cluster.settings.network_device}:{lead.port or PORT}",
        "connect": f"tcp://{lead.address}:{lead.port or PORT}",
    }
    return [first, *([{"host": rest}] if rest else [])]


def toml(cluster: Cluster) -> str:
    """broker.toml: the user's own, or one of this cluster."""
    flux = cluster.spec.flux
    if flux.broker_config:
        return flux.broker_config
    hosts = ",\n".join(
        "  { " + ", ".join(f"{key} = {_quoted(text)}" for key, text in entry.items()) + " }"
        for entry in _hosts(cluster)
    )
    lines = [
        "[access]",
        "allow-guest-user = true",
        "allow-root-owner = true",
        "",
        "[resource]",
        f"path = {_quoted(cluster.config + '/etc/flux/system/R')}",
        "",
        "[bootstrap]",
        f"curve_cert = {_quoted(cluster.config + '/curve/curve.cert')}",
        f"default_port = {PORT}",
        f"default_bind = {_quoted(f'tcp://{cluster.settings.network_device}:%p')}",
        f"default_connect = {_quoted(f'tcp://%h.{cluster.domain}:%p')}",
        f"hosts = [\n{hosts}\n]",
        "",
        "[archive]",
        f"dbpath = {_quoted(cluster.config + '/var/lib/flux/job-archive.sqlite')}",
        'period = "1m"',
        'busytimeout = "50s"',
        "",
        "[sched-fluxion-qmanager]",
        f"queue-policy = {_quoted(flux.scheduler.queue_policy or 'fcfs')}",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A TOML basic string; JSON's escapes are a part of TOML's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def options(cluster: Cluster) -> list[str]:
    """Of `flux start` and `flux broker`, on every pod."""
    flux, logging = cluster.spec.flux, cluster.spec.logging
    timeout = "" if flux.timeout == "0s" else flux.timeout
    attributes = {
        "cron.directory": f"{cluster.config}/etc/flux/system/cron.d",
        "tbon.fanout": str(_FANOUT),
        "rundir": f"{cluster.config}/run/flux",
        "statedir": f"{cluster.config}/var/lib/flux",
        "local-uri": "" if flux.disable_socket else f"local://{cluster.socket}",
        "tbon.connect_timeout": timeout,
        "tbon.topo": flux.topology or "",
        "tbon.zmqdebug": "1" if logging.zeromq else "",
        "log-stderr-level": str(_ERRORS if logging.quiet else flux.log_level),
        "log-stderr-mode": "local",
    }
    found = [f"-S{name}={value}" for name, value in attributes.items() if value]
    return [*found, *(["-Sbroker.rc2_none"] if cluster.interactive else [])]
