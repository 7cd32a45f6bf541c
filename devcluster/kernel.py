"""What the kernel must be able to do for a cluster, as tables: modules that are loaded here, and abilities.

Nothing loads the modules of MODULES when they are needed: the programs open their settings below /proc/sys,
and end where there are none. The kernel itself loads what the abilities need, if the machine has it as
modules; what can be done is tried, because a list of modules does not say what is built in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import CommandFailedError, NotSupportedError
from devcluster.progress import Progress
from devcluster.shell import run


@dataclass(frozen=True)
class Module:
    """A kernel module that is loaded before a cluster starts."""

    name: str
    settings: str
    """A path below /proc/sys that exists if the module is built in or loaded."""
    without: str
    """What happens without it."""
    required: bool


CONNTRACK = Module(
    "nf_conntrack",
    "net/netfilter/nf_conntrack_max",
    "kube-proxy ends, and no Service is reached",
    required=True,
)
BRIDGE_FILTER = Module(
    "br_netfilter",
    "net/bridge/bridge-nf-call-iptables",
    "a pod may not reach a Service, DNS among them",
    required=False,
)
MODULES = (CONNTRACK, BRIDGE_FILTER)


@dataclass(frozen=True)
class Ability:
    """Something that the kernel does only with certain modules."""

    what: str
    modules: tuple[str, ...]
    """What brings it where it is not built in; the kernel loads them when it is asked."""
    trial: str
    """A shell command that succeeds in new network and mount namespaces, with an empty tmpfs at /mnt."""


_NAT = "iptables -w 5 -t nat -A POSTROUTING"
_FILTER = "iptables -w 5 -A FORWARD"
NAMESPACES = Ability("network and mount namespaces", (), "true")
VETH = Ability("pairs of network interfaces", ("veth",), "ip link add name trial0 type veth peer name trial1")
NODE_ABILITIES = (
    Ability("bridges between pods", ("bridge",), "ip link add name trial0 type bridge"),
    Ability(
        "images as layers",
        ("overlay",),
        "cd /mnt && mkdir a b c d && mount -t overlay -o lowerdir=a,upperdir=b,workdir=c overlay d",
    ),
    Ability(
        "address translation for Services",
        ("nft_compat", "nft_chain_nat", "xt_MASQUERADE", "xt_nat", "xt_comment", "xt_mark"),
        f"{_NAT} -m comment --comment x -j MARK --or-mark 1 && {_NAT} -m mark --mark 1 -j MASQUERADE"
        " && iptables -w 5 -t nat -A PREROUTING -p tcp -j DNAT --to-destination 192.0.2.1:80",
    ),
    Ability("rules by the state of a connection", ("xt_conntrack",), f"{_FILTER} -m conntrack --ctstate NEW"),
    Ability("rules by the type of an address", ("xt_addrtype",), f"{_FILTER} -m addrtype --dst-type LOCAL"),
    Ability("refusals for Services without pods", ("ipt_REJECT",), f"{_FILTER} -j REJECT"),
    Ability(
        "Services with several pods",
        ("xt_statistic",),
        f"{_FILTER} -m statistic --mode random --probability 0.5",
    ),
)
"""What kubelet, containerd, CNI's plugins and kube-proxy need beside VETH, which every cluster needs."""


@dataclass(frozen=True)
class Kernel:
    """The paths that show the kernel's capabilities."""

    settings: Path = Path("/proc/sys")
    modules: Path = Path("/proc/modules")
    """Exists if the kernel supports modules."""

    def has(self, module: Module) -> bool:
        return (self.settings / module.settings).exists()


def prepare(progress: Progress, *, node: bool, kernel: Kernel = Kernel()) -> None:
    """Tries the abilities that a cluster, with or without a node, needs, and loads MODULES where necessary.

    What a cluster can do without is printed. Raises NotSupportedError that names the rest, with its modules.
    """
    if not can(NAMESPACES):
        raise NotSupportedError(
            f"This machine refuses {NAMESPACES.what}, as containers without privileges do",
            hint="Allow them (a container: --privileged), or use another provider.",
        )
    if missing := [ability for ability in (VETH, *(NODE_ABILITIES if node else ())) if not can(ability)]:
        names = " ".join(module for ability in missing for module in ability.modules)
        raise NotSupportedError(
            f"This kernel lacks {', '.join(ability.what for ability in missing)}: of the modules"
            f" {names} at least one is neither built in nor can be loaded",
            hint=_remedy(names),
        )
    for module in MODULES if node else ():
        load(module, progress, kernel)


def can(ability: Ability) -> bool:
    """Tries an ability in namespaces that end with the trial. False if it, or a namespace, is refused."""
    script = f"mount -t tmpfs trial /mnt && {ability.trial}"
    words = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-ec", script]
    return run(words, limit=30, check=False).returncode == 0


def load(module: Module, progress: Progress, kernel: Kernel = Kernel()) -> bool:
    """Loads a module if necessary. Returns True if the kernel has it afterwards.

    Its absence is printed. Raises NotSupportedError where no cluster can do without it.
    """
    if kernel.has(module):
        return True
    reason = _modprobe(module) if kernel.modules.exists() else "this kernel takes no modules"
    if kernel.has(module):
        return True
    message = f"The kernel has no {module.name}, and it cannot be loaded: {reason}"
    if module.required:
        raise NotSupportedError(f"{message}. Without it {module.without}", hint=_remedy(module.name))
    progress.print(f"  Note: {message}.\n  Without it {module.without}. {_remedy(module.name)}")
    return False


def _remedy(names: str) -> str:
    return (
        f"Load what is missing on the machine that runs this kernel: modprobe -a {names}; some distributions"
        " keep it in a package of its own (Ubuntu: linux-modules-extra, Fedora: kernel-modules-extra)."
    )


def _modprobe(module: Module) -> str:
    """Runs modprobe. Returns why the module could not be loaded, "" if it was."""
    try:
        run(["modprobe", module.name], limit=20)
    except CommandFailedError as error:
        return str(error).replace("\n", ": ").rstrip(".")
    return ""


def switch_on(inside: Sequence[str], setting: str) -> None:
    """Sets a kernel setting to 1 in the namespaces that the command `inside` enters.

    A setting that is already 1 is not written: /proc/sys may be read-only. Raises CommandFailedError.
    """
    script = 'read -r now <"$1" && [ "$now" = 1 ] || echo 1 >"$1"'
    run([*inside, "sh", "-c", script, "sh", f"/proc/sys/{setting}"], limit=10)
