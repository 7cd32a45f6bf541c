"""The network of a native cluster: its own /24 subnet and a veth pair into its own network namespace."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path

from devcluster.errors import DevclusterError
from devcluster.shell import run

NETWORK_LOCK = Path("/run/lock/fournos-devcluster-network.lock")
"""Held while a subnet is chosen and its interface created. One lock serves all state directories."""

CLUSTERS = IPv4Network("10.240.0.0/16")
"""Contains the subnets of all clusters."""

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
        """The machine's address inside the cluster's subnet."""
        return f"10.240.{self.index}.1"

    @property
    def node_ip(self) -> str:
        """The cluster's address, reachable from the machine."""
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
    """Returns the lowest free network number: in no record, and without overlap with the machine's networks.

    Raises DevclusterError if all 254 are taken.
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
    """Returns the networks of the machine's addresses and routes, without the default route."""
    subnets: list[IPv4Network] = []
    for link in json.loads(run(["ip", "-json", "-4", "addr"], limit=_LIMIT).stdout or "[]"):
        for address in link.get("addr_info", []):
            subnets.append(IPv4Interface(f"{address['local']}/{address['prefixlen']}").network)
    for route in json.loads(run(["ip", "-json", "-4", "route"], limit=_LIMIT).stdout or "[]"):
        if route["dst"] != "default":
            subnets.append(IPv4Network(route["dst"], strict=False))
    return subnets


def past_proxies(environment: Mapping[str, str]) -> list[str]:
    """Returns the command prefix with which a program reaches clusters directly, not by the user's proxy.

    Go's programs take the proxy of the environment for every address that NO_PROXY does not contain.
    """
    if not any(name.lower() in ("http_proxy", "https_proxy") for name in environment):
        return []
    users = environment.get("NO_PROXY") or environment.get("no_proxy")
    value = f"{users},{CLUSTERS}" if users else str(CLUSTERS)
    return ["env", f"NO_PROXY={value}", f"no_proxy={value}"]


def make(network: Network) -> None:
    """Creates the namespace and the veth pair, with both ends up. The caller must hold NETWORK_LOCK."""
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
    """Allows packets from this cluster to other clusters of the machine: pods call their API servers.

    Turns on the machine's IPv4 forwarding. Where a firewall drops forwarded packets (as Docker's does), adds
    two ACCEPT rules for this cluster's interface, which `remove` deletes.
    """
    forwarding = Path("/proc/sys/net/ipv4/ip_forward")
    if forwarding.read_text().strip() != "1":
        forwarding.write_text("1\n")
    rules = run(["iptables", "-S", "FORWARD"], limit=_LIMIT, check=False).stdout
    if "-P FORWARD DROP" in rules:
        for rule in _forward_rules(network):
            run(["iptables", "-w", "5", "-I", "FORWARD", *rule], limit=_LIMIT)


def remove(network: Network) -> None:
    """Removes what `make` and `let_clusters_meet` created. An absent item is not an error."""
    if (Path("/sys/class/net") / network.interface).exists():
        run(["ip", "link", "del", network.interface], limit=_LIMIT, check=False)
    if (Path("/run/netns") / network.namespace).exists():
        run(["ip", "netns", "del", network.namespace], limit=_LIMIT, check=False)
    for rule in _forward_rules(network):
        while run(["iptables", "-w", "5", "-D", "FORWARD", *rule], limit=_LIMIT, check=False).returncode == 0:
            pass


def leftovers(network: Network) -> list[str]:
    """Describes what `remove` could not remove."""
    remains = []
    if (Path("/sys/class/net") / network.interface).exists():
        remains.append(f"network interface {network.interface}")
    if (Path("/run/netns") / network.namespace).exists():
        remains.append(f"network namespace {network.namespace}")
    return remains


def _forward_rules(network: Network) -> list[list[str]]:
    return [["-i", network.interface, "-j", "ACCEPT"], ["-o", network.interface, "-j", "ACCEPT"]]
