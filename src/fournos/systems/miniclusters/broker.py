"""The brokers' configuration: hosts, quorum, broker.toml and command-line options.

The formats are flux-core's (hostlist: its RFC 29; broker.toml: flux-config-bootstrap(5) and its siblings).
"""

from __future__ import annotations

import json
import re
import struct
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fournos.systems.miniclusters.spec import Cluster

PORT: Final = 8050
_FANOUT: Final = 256
_ERRORS: Final = 3
"""The log level of a quiet broker. It still shows why a broker cannot start."""


def _range(name: str, first: int, count: int) -> str:
    """Returns the hostlist of `count` hosts with this name, starting at index `first`."""
    last = first + count - 1
    return f"{name}-[{first}]" if last == first else f"{name}-[{first}-{last}]"


def _own_hosts(cluster: Cluster) -> list[str]:
    """Returns the hosts of the cluster that contains the lead broker. The lead broker comes first."""
    lead = cluster.spec.flux.lead
    if lead is None:
        return [_range(cluster.name, 0, cluster.maximum)]
    others = (lead.size or cluster.maximum) - 1
    return [lead.address, *([_range(lead.name, 1, others)] if others > 0 else [])]


def hostlist(cluster: Cluster) -> str:
    """Returns all hosts, ordered by rank.

    The list is the same on every cluster of a bursting instance, except for the lead broker's address.
    """
    flux = cluster.spec.flux
    if flux.hostlist:
        return flux.hostlist
    bursted = [
        _range(other.name or f"burst-{index}", 0, other.size or cluster.spec.size)
        for index, other in enumerate(flux.bursting.clusters)
    ]
    return ",".join((*_own_hosts(cluster), *bursted))


def quorum(cluster: Cluster) -> int | None:
    """Returns how many brokers must be up before the command starts; None means all of them."""
    if cluster.spec.min_size:
        return cluster.spec.min_size
    burst = bool(cluster.spec.flux.bursting.clusters or cluster.spec.flux.hostlist or cluster.bursted)
    if cluster.maximum == cluster.spec.size and not burst:
        return None
    return cluster.spec.size


_FIRST_HOST: Final = re.compile(r"([^,\[]*)(?:\[(\d+)(?:-(\d+))?(,[^\]]*)?\]([^,]*))?(?:,(.*))?", re.DOTALL)
"""Matches the first host of a list (text, an optional set of numbers, text) and the remaining hosts."""


def _first_host(hosts: str) -> tuple[str, str]:
    """Returns the first host of a list and the list of the remaining hosts."""
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
    """Returns the entries of `hosts` in [bootstrap].

    A lead broker in another cluster is the first entry and has its own address.
    """
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
    """Returns broker.toml: the user's text if there is one, otherwise the generated text."""
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
        # The first entry of the pods' search path completes the name, whatever the domain of the cluster is.
        f"default_connect = {_quoted(f'tcp://%h.{cluster.headless_name}:%p')}",
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
    """Returns a TOML basic string. JSON's escapes are a subset of TOML's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def options(cluster: Cluster) -> list[str]:
    """Returns the options of `flux start` and `flux broker`. They are the same on every pod."""
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


# --- the CURVE certificate -----------------------------------------------------------------------------
# The CURVE certificate with which the brokers authenticate (ZeroMQ's CURVE, RFC 26; Z85, RFC 32).
#
# A CURVE key pair is a Curve25519 key pair. The file has the format of CZMQ's certificates (ZPL, RFC 4),
# which Flux reads. All brokers of an instance share one certificate.

KEY_BYTES: Final = 32
_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(data: bytes) -> str:
    """Returns the Z85 text of the bytes: five characters for every four bytes.

    Raises ValueError unless the length is a multiple of four.
    """
    if len(data) % 4:
        raise ValueError("Z85 encodes multiples of four bytes")
    text: list[str] = []
    for (word,) in struct.iter_unpack(">I", data):
        digits = []
        for _ in range(5):
            word, digit = divmod(word, 85)
            digits.append(_Z85[digit])
        text += reversed(digits)
    return "".join(text)


def certificate(secret_key: bytes, *, host: str) -> str:
    """Returns the text of a certificate.

    `secret_key` are 32 bytes from a cryptographic random source (secrets.token_bytes). Raises ValueError for
    any other number of bytes.
    """
    if len(secret_key) != KEY_BYTES:
        raise ValueError(f"a CURVE key has {KEY_BYTES} bytes")
    public = X25519PrivateKey.from_private_bytes(secret_key).public_key()
    public_key = z85(public.public_bytes(Encoding.Raw, PublicFormat.Raw))
    return (
        "#   ZeroMQ CURVE **Secret** Certificate\n"
        "#   DO NOT PROVIDE THIS FILE TO OTHER USERS nor change its permissions.\n"
        "\n"
        "metadata\n"
        '    name = "fournos"\n'
        f'    keygen.hostname = "{host}"\n'
        "curve\n"
        f'    public-key = "{public_key}"\n'
        f'    secret-key = "{z85(secret_key)}"\n'
    )
