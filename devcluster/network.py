"""The network of a native cluster: a /24 of its own, a veth pair into a network namespace of its own."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path

from devcluster.errors import DevclusterError
from devcluster.shell import run

NETWORK_LOCK = Path("/run/lock/fournos-devcluster-network.lock")
"""Held while a subnet is chosen and its interface made, whatever the state directory."""

_LIMIT = 10.0
_INDEXES = range(1, 255)


@dataclass(frozen=True)
class Network:
    """The names and addresses of the cluster with network number `index` (1 to 254)."""

    index: int
    cluster: str

    @property
    def subnet(self) -> IPv4Network:
        return IPv4Network(f"10.240.{self.index}.0/24")

    @property
    def host_ip(self) -> str:
        """The machine, as the cluster sees it."""
        return f"10.240.{self.index}.1"

    @property
    def node_ip(self) -> str:
        """The cluster, as the machine sees it."""
        return f"10.240.{self.index}.2"

    @property
    def namespace(self) -> str:
        return f"fournos-{self.index}-{self.cluster}"

    @property
    def interface(self) -> str:
        """The machine's end of the veth pair (Linux allows 15 characters)."""
        return f"fournos{self.index}"

    @property
    def cgroup(self) -> str:
        return self.namespace


def choose_index(*, recorded: Collection[int], in_use: Iterable[IPv4Network]) -> int:
    """The lowest network number that no record claims and no address or route of the machine overlaps.

    Raises DevclusterError when all 254 are taken.
    """
    taken = list(in_use)
    for index in _INDEXES:
        subnet = Network(index, "").subnet
        if index not in recorded and not any(subnet.overlaps(other) for other in taken):
            return index
    raise DevclusterError(
        "No free subnet 10.240.1.0/24 … 10.240.254.0/24 on this machine",
        hint="Take clusters down (`python -m devcluster list`), or remove a route that covers 10.240.0.0/16.",
    )


def subnets_in_use() -> list[IPv4Network]:
    """The networks that this machine has an address in or a route to, the default route aside."""
    found: list[IPv4Network] = []
    for link in json.loads(run(["ip", "-json", "-4", "addr"], limit=_LIMIT).stdout or "[]"):
        for address in link.get("addr_info", []):
            found.append(IPv4Interface(f"{address['local']}/{address['prefixlen']}").network)
    for route in json.loads(run(["ip", "-json", "-4", "route"], limit=_LIMIT).stdout or "[]"):
        if route["dst"] != "default":
            found.append(IPv4Network(route["dst"], strict=False))
    return found


def make(network: Network) -> None:
    """Makes the namespace and the veth pair, both ends up. The caller holds NETWORK_LOCK."""
    run(["ip", "netns", "add", network.namespace], limit=_LIMIT)
    run(
        [
            "ip",
            "link",
            "add",
            network.interface,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            network.namespace,
        ],
        limit=_LIMIT,
    )
    run(["ip", "addr", "add", f"{network.host_ip}/24", "dev", network.interface], limit=_LIMIT)
    run(["ip", "link", "set", network.interface, "up"], limit=_LIMIT)
    inside = ["ip", "-netns", network.namespace]
    run([*inside, "addr", "add", f"{network.node_ip}/24", "dev", "eth0"], limit=_LIMIT)
    run([*inside, "link", "set", "eth0", "up"], limit=_LIMIT)
    run([*inside, "link", "set", "lo", "up"], limit=_LIMIT)
    run([*inside, "route", "add", "default", "via", network.host_ip], limit=_LIMIT)


def let_clusters_meet(network: Network) -> None:
    """Lets packets of this cluster reach other clusters of the machine: its pods call their API servers.

    Turns on the machine's IPv4 forwarding; where a firewall drops forwarded packets (Docker's does), adds
    two ACCEPT rules for this cluster's interface, which `remove` takes away.
    """
    forwarding = Path("/proc/sys/net/ipv4/ip_forward")
    if forwarding.read_text().strip() != "1":
        forwarding.write_text("1\n")
    rules = run(["iptables", "-S", "FORWARD"], limit=_LIMIT, check=False).stdout
    if "-P FORWARD DROP" in rules:
        for rule in _forward_rules(network):
            run(["iptables", "-w", "5", "-I", "FORWARD", *rule], limit=_LIMIT)


def remove(network: Network) -> None:
    """Removes what `make` and `let_clusters_meet` made; absent things are no error."""
    if (Path("/sys/class/net") / network.interface).exists():
        run(["ip", "link", "del", network.interface], limit=_LIMIT, check=False)
    if (Path("/run/netns") / network.namespace).exists():
        run(["ip", "netns", "del", network.namespace], limit=_LIMIT, check=False)
    for rule in _forward_rules(network):
        while run(["iptables", "-w", "5", "-D", "FORWARD", *rule], limit=_LIMIT, check=False).returncode == 0:
            pass


def leftovers(network: Network) -> list[str]:
    """What `remove` could not remove, in words."""
    found = []
    if (Path("/sys/class/net") / network.interface).exists():
        found.append(f"network interface {network.interface}")
    if (Path("/run/netns") / network.namespace).exists():
        found.append(f"network namespace {network.namespace}")
    return found


def _forward_rules(network: Network) -> list[list[str]]:
    return [["-i", network.interface, "-j", "ACCEPT"], ["-o", network.interface, "-j", "ACCEPT"]]
