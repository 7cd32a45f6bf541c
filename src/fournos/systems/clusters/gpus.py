"""Discovers a cluster's GPUs from the labels and allocatable resources of its nodes.

Sources: NVIDIA's device plugin and GPU feature discovery (nvidia.com/gpu, nvidia.com/mig-<profile>,
nvidia.com/gpu.product), AMD's device plugin and node labeller (amd.com/gpu, amd.com/gpu.product-name),
Intel's device plugins (gpu.intel.com/i915 and /xe, habana.ai/gaudi). AMD's device plugin names partitions by
their mode (amd.com/cpx_nps4), or as whole GPUs, and then only a label of the node tells the mode.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final

from pydantic import ValidationError

from fournos.api.fournoscluster import MAX_GPU_MODELS, Gpu, StatusHardware
from fournos.engine.api.conditions import condition
from fournos.engine.api.values import format_time, parse_quantity, parse_ttl
from fournos.engine.kube.resource import Obj
from fournos.systems.clusters.status import Context

MAX_SHORT_NAME: Final = 59
"""The part of a resource name after the slash has at most 63 characters, and `gpu-` takes four of them."""
_MOST: Final = 1_000_000
"""The largest number of GPUs counted per model. It bounds implausible values from a cluster."""
_LONGEST_MODEL: Final = 253


@dataclass(frozen=True, slots=True)
class Inventory:
    """The GPUs that quotas are based on, and the models whose decrease is not confirmed yet."""

    gpus: tuple[Gpu, ...] = ()
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
    "amd": ("amd.com/gpu.product",),
    "intel": ("gpu.intel.com/product",),
    "habana": ("habana.ai/gaudi.product",),
}
_UNNAMED: Final = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "INTEL", "habana": "HABANA-GAUDI"}
_AMD_LABELS: Final = ("amd.com/gpu.", "beta.amd.com/gpu.")
"""The prefixes of AMD's node labeller.

A label that has several values on a node has one key for each, which ends with the value, and the number of
its GPUs as the label's value. Older versions wrote every label so.
"""
_AMD_PRODUCT, _AMD_MODE = "product-name", "compute-memory-partition"
_AMD_KEYS: Final = tuple(f"{prefix}{what}" for prefix in _AMD_LABELS for what in (_AMD_PRODUCT, _AMD_MODE))
_AMD_PARTITION: Final = re.compile(r"amd\.com/([a-z]px(_nps[0-9]+)?)")
_WHOLE: Final = "spx"
"""The mode of a GPU without partitions."""
_MIXED: Final = "MIXED"
"""Stands for the model or mode where a node has several, and its labels do not tell how many of each."""

_DRIVERS: Final = ("nvidia.com/cuda.driver-version.full", "amd.com/gpu.driver-version")
_DRIVER_PARTS: Final = tuple(f"nvidia.com/cuda.driver.{part}" for part in ("major", "minor", "rev"))
"""How GPU feature discovery named the driver before it had one label for it."""
_MOST_DRIVERS: Final = 8
_LABELS: Final = frozenset(chain(*_PRODUCT_LABELS.values(), _DRIVERS, _DRIVER_PARTS))


def is_gpu_resource(name: str) -> bool:
    """True if the resource counts GPUs."""
    return name in _RESOURCES or name.startswith(_MIG) or _AMD_PARTITION.fullmatch(name) is not None


def is_gpu_label(name: str) -> bool:
    """True if the node label contains the product name or mode of a GPU, or the version of its driver."""
    return name.startswith(_AMD_KEYS) or name in _LABELS


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


def discover(nodes: Iterable[Obj]) -> tuple[Gpu, ...]:
    """Returns the GPUs of all usable nodes, sorted."""
    counts: Counter[tuple[str, str]] = Counter()
    node_counts: Counter[tuple[str, str]] = Counter()
    for node in filter(usable, nodes):
        models = _models_of(node)
        counts.update(models)
        node_counts.update(models.keys())
    return tuple(
        Gpu(
            vendor=vendor,
            model=model,
            short_name=short_name(vendor, model),
            count=min(count, _MOST),
            node_count=node_counts[vendor, model],
        )
        for (vendor, model), count in sorted(counts.items())
    )


def _models_of(node: Obj) -> Counter[tuple[str, str]]:
    """Returns the number of GPUs of a node by vendor and model."""
    labels = node["metadata"].get("labels") or {}
    models: Counter[tuple[str, str]] = Counter()
    for resource, quantity in ((node.get("status") or {}).get("allocatable") or {}).items():
        count = _count(quantity)
        if count <= 0:
            continue
        if resource == "amd.com/gpu" or _AMD_PARTITION.fullmatch(resource):
            for model, part in _amd_models(resource, count, labels):
                models["amd", model[:_LONGEST_MODEL]] += part
        elif vendor := "nvidia" if resource.startswith(_MIG) else _RESOURCES.get(resource):
            models[vendor, _model(vendor, resource, labels)[:_LONGEST_MODEL]] += count
    return models


def _model(vendor: str, resource: str, labels: Mapping[str, str]) -> str:
    named = (labels[name] for name in _PRODUCT_LABELS[vendor] if labels.get(name))
    model = next(named, _UNNAMED[vendor])
    if resource.startswith(_MIG):
        return f"{model}-MIG-{resource.removeprefix(_MIG)}"
    if resource.endswith(".shared") and not model.endswith("-SHARED"):
        return f"{model}-SHARED"
    return model


def _amd_models(resource: str, count: int, labels: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Yields the models of a node's AMD GPUs or partitions, each with its number."""
    partition = _AMD_PARTITION.fullmatch(resource)
    products = _split(count, _amd_values(labels, _AMD_PRODUCT) or {_model("amd", resource, labels): 0})
    modes = _split(count, {partition[1]: 0} if partition else _amd_values(labels, _AMD_MODE))
    if len(products) > 1 and len(modes) > 1:
        products = {_MIXED: count}
    for product, of_product in products.items():
        for mode, of_mode in modes.items():
            model = f"{_UNNAMED['amd']}-{_MIXED}" if product == _MIXED else product
            suffix = "" if not mode or mode.startswith(_WHOLE) else f"-{mode.upper()}"
            yield f"{model}{suffix}", min(of_product, of_mode)


def _amd_values(labels: Mapping[str, str], what: str) -> dict[str, int]:
    """Returns the values of AMD's label, each with its number of GPUs; 0 if the label tells no number."""
    for key in (f"{prefix}{what}" for prefix in _AMD_LABELS):
        if value := labels.get(key):
            return {value: 0}
        several = {name: number for name, number in labels.items() if name.startswith(f"{key}.")}
        if several:
            return {name.removeprefix(f"{key}."): _count(number) for name, number in several.items()}
    return {}


def _split(count: int, values: Mapping[str, int]) -> Mapping[str, int]:
    """Returns how many of `count` GPUs have each value.

    A single value has all of them. Several are told apart only if their numbers add up.
    """
    if len(values) < 2:
        return {next(iter(values), ""): count}
    return values if sum(values.values()) == count else {_MIXED: count}


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
_PARTITION: Final = re.compile(r"-(mig-[0-9a-z.+]+|[a-z]px(_nps[0-9]+)?$)")


def short_name(vendor: str, model: str) -> str:
    """Returns the name of a model in FournosJobs.

    It has only lower-case letters and digits, without vendor, form factor and memory size.

    A partition or a shared GPU is a different resource from a whole GPU and gets a name of its own, such as
    a100mig1g5gb, mi300xcpxnps4 or l40sshared.
    """
    text = model.lower()
    share = ""
    partition = _PARTITION.search(text)
    if partition:
        share = re.sub(r"[^a-z0-9]", "", partition[1])
        text = text[: partition.start()]
    if text.endswith("-shared"):
        text, share = text.removesuffix("-shared"), "shared" + share
    words = [word for word in re.split(r"[^a-z0-9]+", text) if word and not _NOISE.fullmatch(word)]
    return ("".join(words) or vendor)[:40] + share


# --- hysteresis --------------------------------------------------------------------------------------


SHRINK_AFTER: Final = timedelta(minutes=2)
"""How long GPUs must be missing before they no longer count."""


def settle(before: Inventory, discovered: Iterable[Gpu], now: datetime) -> Inventory:
    """Returns the inventory to use from now on.

    An increase counts at once. A decrease counts only after it has lasted for SHRINK_AFTER. Thus a rebooting
    or cordoned node, or one empty list, changes no quota.
    """
    visible = {(gpu.vendor, gpu.model): gpu for gpu in discovered}
    models = dict(visible)
    shrinking: dict[tuple[str, str], datetime] = {}
    for old in before.gpus:
        key = old.vendor, old.model
        new = visible.get(key)
        if new is not None and new.count >= old.count:
            continue
        since = (before.shrinking or {}).get(key, now)
        if now - since < SHRINK_AFTER:
            models[key] = old
            shrinking[key] = since
    return Inventory(tuple(gpu for _, gpu in sorted(models.items(), key=lambda item: item[0])), shrinking)


def next_change(inventory: Inventory) -> datetime | None:
    """Returns the earliest time at which a decrease will count, or None."""
    return min((since + SHRINK_AFTER for since in (inventory.shrinking or {}).values()), default=None)


# --- the inventory in the spec -------------------------------------------------------------------------
# Writes the discovered GPUs.
#
# They go to status.hardware, spec.hardware, status.gpuSummary and the condition GPUDiscovered.

_NAMED = 3
"""The number of models that a message lists."""


def inventory(ctx: Context) -> None:
    """Adds the discovery's result to the pass, or its failure."""
    probe = ctx.observed.probe
    if probe is None or ctx.renewing or ctx.observed.connected != ctx.secret_version:
        if not ctx.draft.reason_of("GPUDiscovered"):
            ctx.draft.condition("GPUDiscovered", "Unknown", "Pending", "not looked at yet")
        return
    if not probe.reachable:
        _failed(ctx, probe.error)
    elif ctx.observed.nodes is not None:
        _found(ctx, ctx.observed.nodes)
    elif ctx.observed.nodes_error:
        _failed(ctx, f"nodes cannot be listed: {ctx.observed.nodes_error}")


def _found(ctx: Context, nodes: tuple[Obj, ...]) -> None:
    before = ctx.draft.group("hardware")
    discovered = discover(nodes)
    counted = [gpus for gpus in discovered if len(gpus.short_name) <= MAX_SHORT_NAME][:MAX_GPU_MODELS]
    inventory = settle(read(before), counted, ctx.now)
    after = {
        "gpus": [gpu.model_dump(by_alias=True) for gpu in inventory.gpus[:MAX_GPU_MODELS]],
        "totalGPUs": inventory.total,
        "drivers": list(drivers(nodes)),
        "consecutiveFailures": 0,
        "shrinking": [
            {"vendor": vendor, "model": model, "since": format_time(since)}
            for (vendor, model), since in sorted((inventory.shrinking or {}).items())[:MAX_GPU_MODELS]
        ],
    }
    unchanged = {name: before.get(name) for name in after} == after and "lastError" not in before
    due = (ctx.draft.hardware.last_discovery or ctx.now) + _interval(ctx)
    # Times are written once per interval only: a status write per pass would trigger the next pass.
    if unchanged and "lastDiscovery" in before and ctx.now < due:
        after = before
    else:
        after["lastDiscovery"] = after["lastAttempt"] = format_time(ctx.now)
        due = ctx.now + _interval(ctx)
    ctx.wake(due)
    ctx.wake(next_change(inventory))
    ctx.draft.put(hardware=after, gpuSummary=inventory.summary)
    _mirror(ctx, after)
    text = inventory.summary or "no GPUs"
    if len(counted) < len(discovered):
        ctx.draft.put_condition("GPUDiscovered", "True", "SomeLeftOut", f"{text}; {_left_out(discovered)}")
    elif inventory.shrinking:
        gone = ", ".join(model for _, model in sorted(inventory.shrinking))
        ctx.draft.put_condition("GPUDiscovered", "True", "Shrinking", f"{text}; fewer are seen of {gone}")
    else:
        ctx.draft.put_condition("GPUDiscovered", "True", "Discovered", text)


def _left_out(models: tuple[Gpu, ...]) -> str:
    unnamed = [gpus.model for gpus in models if len(gpus.short_name) > MAX_SHORT_NAME]
    if not unnamed:
        return f"{len(models)} models are seen, {MAX_GPU_MODELS} are counted"
    names = ", ".join(unnamed[:_NAMED]) + (", …" if len(unnamed) > _NAMED else "")
    return (
        f"left out: {names}: the short name has more than {MAX_SHORT_NAME} characters; "
        "shorten the nodes' product label"
    )


def _failed(ctx: Context, error: str) -> None:
    """Records a failed discovery. The GPUs that were found before stay."""
    hardware = ctx.draft.group("hardware")
    failures = ctx.draft.hardware.consecutive_failures or 0
    wait = _interval(ctx)
    due = (ctx.draft.hardware.last_attempt or ctx.now) + wait
    if failures == 0 or ctx.now >= due:
        hardware |= {
            "consecutiveFailures": failures + 1,
            "lastError": error[:1024],
            "lastAttempt": format_time(ctx.now),
        }
        due = ctx.now + wait
        ctx.draft.put(hardware=hardware)
    ctx.wake(due)
    _mirror(ctx, hardware)
    ctx.draft.put_condition("GPUDiscovered", "False", "DiscoveryFailed", error)


def _mirror(ctx: Context, hardware: dict[str, Any]) -> None:
    """Copies the result to `spec.hardware`. It is written only if more than the time differs."""
    there = (ctx.cluster.get("spec") or {}).get("hardware")
    there = there if isinstance(there, Mapping) else {}
    names = ("gpus", "totalGPUs", "consecutiveFailures", "lastError")
    wanted = {name: hardware.get(name) for name in names}
    if {name: there.get(name) for name in names} != wanted:
        ctx.spec_changes["hardware"] = {**wanted, "lastDiscovery": hardware.get("lastDiscovery")}


def _interval(ctx: Context) -> timedelta:
    text = ctx.spec.gpu_discovery_interval
    try:
        own = parse_ttl(text) if text else None
    except ValueError:  # a value that was stored before its rule existed; use the default
        own = None
    return own or timedelta(seconds=ctx.settings.gpu_discovery_default_interval_sec)


# --- status.hardware <-> Inventory -------------------------------------------------------------------


def read(hardware: Obj) -> Inventory:
    """Returns the inventory that `status.hardware` holds; none if another client has spoiled it."""
    try:
        status = StatusHardware.model_validate(hardware)
    except ValidationError:
        return Inventory()
    if "gpus" not in hardware:
        return Inventory()
    return Inventory(status.gpus, {(entry.vendor, entry.model): entry.since for entry in status.shrinking})
