"""Discovers a cluster's GPUs from the labels and allocatable resources of its nodes.

Sources: NVIDIA's device plugin and GPU feature discovery (nvidia.com/gpu, nvidia.com/mig-<profile>,
nvidia.com/gpu.product), AMD's device plugin and node labeller (amd.com/gpu, amd.com/gpu.product-name),
Intel's device plugins (gpu.intel.com/i915 and /xe, habana.ai/gaudi).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from fournos.engine.api.conditions import condition
from fournos.engine.api.values import parse_quantity
from fournos.engine.kube.resource import Obj

MAX_SHORT_NAME: Final = 59
"""The part of a resource name after the slash has at most 63 characters, and `gpu-` takes four of them."""
_MOST: Final = 1_000_000
"""The largest number of GPUs counted per model. It bounds implausible values from a cluster."""
_LONGEST_MODEL: Final = 253


@dataclass(frozen=True, slots=True, order=True)
class GpuModel:
    """GPUs of one model in a cluster."""

    vendor: str
    model: str
    short_name: str
    count: int
    nodes: int

    @property
    def key(self) -> tuple[str, str]:
        return self.vendor, self.model

    @property
    def nameable(self) -> bool:
        """True if a valid resource name can be built from the short name."""
        return len(self.short_name) <= MAX_SHORT_NAME


@dataclass(frozen=True, slots=True)
class Inventory:
    """The GPUs that quotas are based on, and the models whose decrease is not confirmed yet."""

    gpus: tuple[GpuModel, ...] = ()
    shrinking: Mapping[tuple[str, str], datetime] | None = None
    """Per (vendor, model) with fewer visible GPUs: the time since when. None before the first discovery."""

    @property
    def total(self) -> int:
        return sum(gpu.count for gpu in self.gpus)

    @property
    def summary(self) -> str:
        """Text such as "8x NVIDIA-H100-80GB-HBM3, 2x NVIDIA-L40S"."""
        return ", ".join(f"{gpu.count}x {gpu.model}" for gpu in self.gpus)

    @property
    def quotas(self) -> dict[str, int]:
        """Number of GPUs per short name. Models with the same short name are added up."""
        sums: dict[str, int] = {}
        for gpu in self.gpus:
            sums[gpu.short_name] = sums.get(gpu.short_name, 0) + gpu.count
        return sums


# --- what a node has ---------------------------------------------------------------------------------

_MIG: Final = "nvidia.com/mig-"
_RESOURCES: Final = {
    "nvidia.com/gpu": "nvidia",
    "nvidia.com/gpu.shared": "nvidia",
    "amd.com/gpu": "amd",
    "gpu.intel.com/i915": "intel",
    "gpu.intel.com/xe": "intel",
    "habana.ai/gaudi": "habana",
}
_PRODUCT_LABELS: Final = {
    "nvidia": ("nvidia.com/gpu.product",),
    "amd": ("amd.com/gpu.product-name", "amd.com/gpu.product"),
    "intel": ("gpu.intel.com/product",),
    "habana": ("habana.ai/gaudi.product",),
}
_UNNAMED: Final = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "INTEL", "habana": "HABANA-GAUDI"}
_AMD_BETA: Final = "beta.amd.com/gpu.product-name."
"""Older versions of AMD's node labeller put the product name into the label's key."""


_DRIVERS: Final = ("nvidia.com/cuda.driver-version.full", "amd.com/gpu.driver-version")
_DRIVER_PARTS: Final = tuple(f"nvidia.com/cuda.driver.{part}" for part in ("major", "minor", "rev"))
"""How GPU feature discovery named the driver before it had one label for it."""
_MOST_DRIVERS: Final = 8
_LABELS: Final = frozenset(chain(*_PRODUCT_LABELS.values(), _DRIVERS, _DRIVER_PARTS))


def is_gpu_resource(name: str) -> bool:
    """True if the resource counts GPUs."""
    return name in _RESOURCES or name.startswith(_MIG)


def is_gpu_label(name: str) -> bool:
    """True if the node label contains the product name of a GPU, or the version of its driver."""
    return name.startswith(_AMD_BETA) or name in _LABELS


def drivers(nodes: Iterable[Obj]) -> tuple[str, ...]:
    """Returns the versions of the GPU drivers of all usable nodes, as their labels say them, sorted."""
    versions = {_driver(node["metadata"].get("labels") or {}) for node in nodes if usable(node)}
    return tuple(sorted(versions - {""}))[:_MOST_DRIVERS]


def _driver(labels: Mapping[str, str]) -> str:
    parts = ".".join(filter(None, map(labels.get, _DRIVER_PARTS)))
    return next((labels[name] for name in _DRIVERS if labels.get(name)), parts)


def usable(node: Obj) -> bool:
    """True if the scheduler can place pods on the node: it is ready, not cordoned and not being deleted."""
    if (node.get("spec") or {}).get("unschedulable") or node["metadata"].get("deletionTimestamp"):
        return False
    return (condition(node, "Ready") or {}).get("status") == "True"


def discover(nodes: Iterable[Obj]) -> tuple[GpuModel, ...]:
    """Returns the GPUs of all usable nodes, sorted."""
    models: dict[tuple[str, str], GpuModel] = {}
    for node in nodes:
        if not usable(node):
            continue
        labels = node["metadata"].get("labels") or {}
        for resource, quantity in ((node.get("status") or {}).get("allocatable") or {}).items():
            gpu = _gpu(resource, _count(quantity), labels)
            if gpu is None:
                continue
            before = models.get(gpu.key)
            if before:
                count = min(gpu.count + before.count, _MOST)
                gpu = replace(gpu, count=count, nodes=before.nodes + 1)
            models[gpu.key] = gpu
    return tuple(sorted(models.values()))


def _gpu(resource: str, count: int, labels: Mapping[str, str]) -> GpuModel | None:
    """Returns the GPUs of one allocatable resource of a node; None if the resource is not a GPU."""
    vendor = "nvidia" if resource.startswith(_MIG) else _RESOURCES.get(resource)
    if vendor is None or count <= 0:
        return None
    model = _product(vendor, labels) or _UNNAMED[vendor]
    if resource.startswith(_MIG):
        model = f"{model}-MIG-{resource.removeprefix(_MIG)}"
    elif resource.endswith(".shared") and not model.endswith("-SHARED"):
        model = f"{model}-SHARED"
    model = model[:_LONGEST_MODEL]
    return GpuModel(vendor, model, short_name(vendor, model), count, 1)


def _product(vendor: str, labels: Mapping[str, str]) -> str | None:
    for name in _PRODUCT_LABELS[vendor]:
        if labels.get(name):
            return labels[name]
    if vendor == "amd":
        return next(
            (key.removeprefix(_AMD_BETA) for key in sorted(labels) if key.startswith(_AMD_BETA)), None
        )
    return None


def _count(quantity: str | int) -> int:
    """Returns the quantity as an integer within bounds; 0 if it cannot be parsed."""
    try:
        return min(int(parse_quantity(quantity)), _MOST)
    except ValueError:
        return 0


# --- short names -------------------------------------------------------------------------------------

_NOISE: Final = re.compile(
    r"nvidia|amd|intel|habana|tesla|instinct|geforce|quadro|radeon|pro|data|center|series|gpu|accelerator|generation"
    r"|sxm\d*|pcie|nvl\d*|oam|ubb|hbm\d*[a-z]?|\d+gb|lp"
)
_MIG_PROFILE: Final = re.compile(r"-mig-([0-9a-z.+]+)")


def short_name(vendor: str, model: str) -> str:
    """Returns the name of a model in FournosJobs.

    It has only lower-case letters and digits, without vendor, form factor and memory size.

    A partition or a shared GPU is a different resource from a whole GPU and gets a name of its own, such as
    a100mig1g5gb or l40sshared.
    """
    text = model.lower()
    share = ""
    profile = _MIG_PROFILE.search(text)
    if profile:
        share = "mig" + re.sub(r"[^a-z0-9]", "", profile[1])
        text = text[: profile.start()]
    if text.endswith("-shared"):
        text, share = text.removesuffix("-shared"), "shared" + share
    words = [word for word in re.split(r"[^a-z0-9]+", text) if word and not _NOISE.fullmatch(word)]
    return ("".join(words) or vendor)[:40] + share


# --- hysteresis --------------------------------------------------------------------------------------


def settle(before: Inventory, discovered: Iterable[GpuModel], now: datetime, grace: timedelta) -> Inventory:
    """Returns the inventory to use from now on.

    An increase counts at once. A decrease counts only after it has lasted for `grace`. Thus a rebooting or
    cordoned node, or one empty list, changes no quota.
    """
    visible = {gpu.key: gpu for gpu in discovered}
    models: dict[tuple[str, str], GpuModel] = dict(visible)
    shrinking: dict[tuple[str, str], datetime] = {}
    for old in before.gpus:
        new = visible.get(old.key)
        if new is not None and new.count >= old.count:
            continue
        since = (before.shrinking or {}).get(old.key, now)
        if now - since < grace:
            models[old.key] = old
            shrinking[old.key] = since
    return Inventory(tuple(sorted(models.values())), shrinking)


def next_change(inventory: Inventory, grace: timedelta) -> datetime | None:
    """Returns the earliest time at which a decrease will count, or None."""
    return min((since + grace for since in (inventory.shrinking or {}).values()), default=None)
