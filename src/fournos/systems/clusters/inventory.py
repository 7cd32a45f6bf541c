"""Writes the discovered GPUs.

They go to status.hardware, spec.hardware, status.gpuSummary and the condition GPUDiscovered.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from fournos.api.fournoscluster import MAX_GPU_MODELS
from fournos.engine.api.values import format_time, parse_time, parse_ttl
from fournos.engine.kube.resource import Obj
from fournos.systems.clusters.context import Context
from fournos.systems.clusters.gpus import (
    MAX_SHORT_NAME,
    GpuModel,
    Inventory,
    discover,
    drivers,
    next_change,
    settle,
)

_NAMED = 3
"""The number of models that a message lists."""
_SLOWER_AFTER = 3
_SLOWEST = 6
"""After three failures in a row the interval doubles with each failure, up to six times its length."""


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
    grace = timedelta(seconds=ctx.settings.gpu_shrink_after_sec)
    discovered = discover(nodes)
    counted = [gpus for gpus in discovered if gpus.nameable][:MAX_GPU_MODELS]
    inventory = settle(read(before), counted, ctx.now, grace)
    after = {
        **_facts(inventory),
        "drivers": list(drivers(nodes)),
        "consecutiveFailures": 0,
        **_shrinking(inventory),
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
    ctx.wake(next_change(inventory, grace))
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


def _left_out(models: tuple[GpuModel, ...]) -> str:
    unnamed = [gpus.model for gpus in models if not gpus.nameable]
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
    if failures >= _SLOWER_AFTER:
        wait *= min(2 ** (failures - 2), _SLOWEST)
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
    there = (ctx.cluster.get("spec") or {}).get("hardware") or {}
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
    """Returns the inventory that `status.hardware` holds."""
    if "gpus" not in hardware:
        return Inventory()
    return Inventory(
        tuple(
            GpuModel(gpu["vendor"], gpu["model"], gpu["shortName"], int(gpu["count"]), int(gpu["nodeCount"]))
            for gpu in hardware["gpus"]
        ),
        {
            (entry["vendor"], entry["model"]): parse_time(entry["since"])
            for entry in hardware.get("shrinking") or ()
        },
    )


def _facts(inventory: Inventory) -> dict[str, Any]:
    return {
        "gpus": [
            {
                "vendor": gpu.vendor,
                "model": gpu.model,
                "shortName": gpu.short_name,
                "count": gpu.count,
                "nodeCount": gpu.nodes,
            }
            for gpu in inventory.gpus[:MAX_GPU_MODELS]
        ],
        "totalGPUs": inventory.total,
    }


def _shrinking(inventory: Inventory) -> dict[str, Any]:
    entries = [
        {"vendor": vendor, "model": model, "since": format_time(since)}
        for (vendor, model), since in sorted((inventory.shrinking or {}).items())[:MAX_GPU_MODELS]
    ]
    return {"shrinking": entries}
