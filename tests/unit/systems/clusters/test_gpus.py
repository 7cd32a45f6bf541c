"""GPU discovery: tables of what node labels and allocatable resources mean."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fournos.api.fournoscluster import Gpu
from fournos.systems.clusters.gpus import (
    SHRINK_AFTER,
    Inventory,
    discover,
    drivers,
    is_gpu_label,
    next_change,
    settle,
    short_name,
)
from fournos.systems.clusters.observe import project_node

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def node(labels: Any = None, ready: str = "True", cordoned: bool = False, **allocatable: Any) -> Any:
    resources = {name.replace("__", "/").replace("_", "."): value for name, value in allocatable.items()}
    return {
        "metadata": {"name": "n", "labels": labels or {}},
        "spec": {"unschedulable": cordoned},
        "status": {"allocatable": resources, "conditions": [{"type": "Ready", "status": ready}]},
    }


def nvidia(count: int, product: str | None = None, **kwargs: Any) -> Any:
    labels = {"nvidia.com/gpu.product": product} if product else {}
    return node(labels, nvidia_com__gpu=str(count), **kwargs)


def gpus(count: int, model: str = "NVIDIA-L40S", *, nodes: int = 1) -> Gpu:
    short = short_name("nvidia", model)
    return Gpu(vendor="nvidia", model=model, short_name=short, count=count, node_count=nodes)


@pytest.mark.parametrize(
    ("vendor", "model", "short"),
    [
        ("nvidia", "NVIDIA-A100-SXM4-80GB", "a100"),
        ("nvidia", "NVIDIA-A100-SXM4-40GB", "a100"),
        ("nvidia", "NVIDIA-A100-PCIE-40GB", "a100"),
        ("nvidia", "A100-PCIE-40GB", "a100"),
        ("nvidia", "NVIDIA-H100-80GB-HBM3", "h100"),
        ("nvidia", "NVIDIA-H100-NVL", "h100"),
        ("nvidia", "NVIDIA-H100-PCIe", "h100"),
        ("nvidia", "NVIDIA-H200", "h200"),
        ("nvidia", "NVIDIA-H200-SXM-141GB", "h200"),
        ("nvidia", "NVIDIA-B200", "b200"),
        ("nvidia", "NVIDIA-GB200", "gb200"),
        ("nvidia", "NVIDIA-GH200-480GB", "gh200"),
        ("nvidia", "NVIDIA-L40S", "l40s"),
        ("nvidia", "NVIDIA-L4", "l4"),
        ("nvidia", "NVIDIA-A10G", "a10g"),
        ("nvidia", "Tesla-T4", "t4"),
        ("nvidia", "NVIDIA Tesla V100", "v100"),
        ("nvidia", "Tesla-V100-SXM2-16GB", "v100"),
        ("nvidia", "NVIDIA-RTX-A6000", "rtxa6000"),
        ("nvidia", "NVIDIA-GeForce-RTX-4090", "rtx4090"),
        ("nvidia", "NVIDIA-RTX-6000-Ada-Generation", "rtx6000ada"),
        ("nvidia", "NVIDIA", "nvidia"),
        ("nvidia", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "a100mig1g5gb"),
        ("nvidia", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb+me", "h100mig1g10gbme"),
        ("nvidia", "NVIDIA-L40S-SHARED", "l40sshared"),
        ("amd", "AMD-Instinct-MI300X", "mi300x"),
        ("amd", "AMD_Instinct_MI300X_OAM", "mi300x"),
        ("amd", "AMD-Instinct-MI210", "mi210"),
        ("amd", "AMD-Instinct-MI250X", "mi250x"),
        ("amd", "AMD_Instinct_MI300X_OAM-CPX_NPS4", "mi300xcpxnps4"),
        ("amd", "AMD", "amd"),
        ("intel", "Max_1550", "max1550"),
        ("habana", "HABANA-GAUDI", "gaudi"),
    ],
)
def test_short_names(vendor: str, model: str, short: str) -> None:
    assert short_name(vendor, model) == short


def test_models_are_counted_over_nodes_and_summed_by_short_name() -> None:
    found = discover(
        [
            nvidia(8, "NVIDIA-A100-SXM4-80GB"),
            nvidia(8, "NVIDIA-A100-SXM4-80GB"),
            nvidia(4, "NVIDIA-A100-PCIE-40GB"),
            nvidia(0, "NVIDIA-L4"),
            node(cpu="64"),
        ]
    )
    assert found == (
        gpus(4, "NVIDIA-A100-PCIE-40GB"),
        gpus(16, "NVIDIA-A100-SXM4-80GB", nodes=2),
    )
    inventory = Inventory(found)
    assert inventory.quotas == {"a100": 20}
    assert inventory.total == 20
    assert inventory.summary == "4x NVIDIA-A100-PCIE-40GB, 16x NVIDIA-A100-SXM4-80GB"


def test_the_summaries_of_the_hearth_readme() -> None:
    assert Inventory(discover([nvidia(2, "NVIDIA-L40S")])).summary == "2x NVIDIA-L40S"
    assert Inventory(discover([nvidia(2)])).summary == "2x NVIDIA"
    assert Inventory().summary == ""


@pytest.mark.parametrize(
    ("a_node", "short", "count"),
    [
        (node({"amd.com/gpu.product-name": "AMD_Instinct_MI210"}, amd_com__gpu="8"), "mi210", 8),
        (node({"beta.amd.com/gpu.product-name.AMD_Instinct_MI250": "1"}, amd_com__gpu="8"), "mi250", 8),
        (node({}, amd_com__gpu=4), "amd", 4),
        (node({}, habana_ai__gaudi="8"), "gaudi", 8),
        (node({"gpu.intel.com/product": "Flex_170"}, gpu_intel_com__i915="2"), "flex170", 2),
    ],
)
def test_vendors(a_node: Any, short: str, count: int) -> None:
    (found,) = discover([a_node])
    assert (found.short_name, found.count) == (short, count)


@pytest.mark.parametrize(
    ("labels", "version"),
    [
        ({"nvidia.com/cuda.driver-version.full": "550.54.15"}, "550.54.15"),
        (
            {
                "nvidia.com/cuda.driver.major": "535",
                "nvidia.com/cuda.driver.minor": "104",
                "nvidia.com/cuda.driver.rev": "05",
            },
            "535.104.05",
        ),
        ({"amd.com/gpu.driver-version": "6.3.6"}, "6.3.6"),
        ({}, None),
    ],
)
def test_the_version_of_a_driver(labels: dict[str, str], version: str | None) -> None:
    assert drivers([node(labels)]) == ((version,) if version else ())
    assert all(map(is_gpu_label, labels))


def test_each_version_is_named_once_and_nodes_that_take_no_pods_do_not_count() -> None:
    nodes = [
        node({"nvidia.com/cuda.driver-version.full": version}, cordoned=version == "1")
        for version in ("550", "535", "550", "1")
    ]
    assert drivers(nodes) == ("535", "550")


def test_slices_are_not_whole_gpus() -> None:
    mixed = node({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}, nvidia_com__gpu="4")
    mixed["status"]["allocatable"]["nvidia.com/mig-1g.5gb"] = "14"
    assert {gpu.short_name: gpu.count for gpu in discover([mixed])} == {"a100": 4, "a100mig1g5gb": 14}


MI300X = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
MODE = "amd.com/gpu.compute-memory-partition"
TWO = {
    f"{prefix}amd.com/gpu.product-name.{name}": n
    for prefix in ("", "beta.")
    for name, n in (("AMD_Instinct_MI210", "2"), ("AMD_Instinct_MI300X", "6"))
}


@pytest.mark.parametrize(
    ("labels", "allocatable", "counted"),
    [
        # Named by their mode: a GPU in SPX is whole.
        (MI300X, {"amd.com/gpu": "0", "amd.com/spx_nps1": "6", "amd.com/cpx_nps1": "16"},
         {"mi300x": 6, "mi300xcpxnps1": 16}),
        (MI300X, {"amd.com/dpx_nps1": "4"}, {"mi300xdpxnps1": 4}),
        ({}, {"amd.com/cpx_nps4": "64"}, {"amdcpxnps4": 64}),
        # Named as whole GPUs: a label has the mode.
        (MI300X | {MODE: "cpx_nps4"}, {"amd.com/gpu": "64"}, {"mi300xcpxnps4": 64}),
        (MI300X | {MODE: "spx_nps1"}, {"amd.com/gpu": "8"}, {"mi300x": 8}),
        (MI300X | {f"{MODE}.spx_nps1": "6", f"{MODE}.cpx_nps1": "16"}, {"amd.com/gpu": "22"},
         {"mi300x": 6, "mi300xcpxnps1": 16}),
        # Two models: by their numbers, or as what nobody can tell apart.
        (TWO, {"amd.com/gpu": "8"}, {"mi210": 2, "mi300x": 6}),
        (TWO, {"amd.com/gpu": "7"}, {"mixed": 7}),
        (TWO, {"amd.com/cpx_nps1": "16"}, {"mixedcpxnps1": 16}),
        (TWO | {f"{MODE}.spx_nps1": "4", f"{MODE}.cpx_nps1": "4"}, {"amd.com/gpu": "8"},
         {"mixed": 4, "mixedcpxnps1": 4}),
    ],
)  # fmt: skip
def test_partitions_and_models_of_amd(labels: Any, allocatable: Any, counted: dict[str, int]) -> None:
    a_node = {**node(labels), "status": {**node()["status"], "allocatable": allocatable}}
    projected = project_node({**a_node, "metadata": {**a_node["metadata"], "uid": "u"}})
    assert Inventory(discover([projected])).quotas == counted
    assert {model.node_count for model in discover([projected])} == {1}


@pytest.mark.parametrize(
    "a_node",
    [
        nvidia(8, ready="False"),
        nvidia(8, ready="Unknown"),
        nvidia(8, cordoned=True),
        node(nvidia_com__gpu="many"),
        node(nvidia_com__gpu="-1"),
        {"metadata": {"name": "n"}},
    ],
)
def test_what_does_not_count(a_node: Any) -> None:
    assert discover([a_node]) == ()


# --- hysteresis ---


def test_more_counts_at_once_and_fewer_after_a_while() -> None:
    first = settle(Inventory(), [gpus(8)], NOW)
    assert first.total == 8
    more = settle(first, [gpus(16)], NOW)
    assert more.total == 16 and not more.shrinking
    less = settle(more, [gpus(8)], NOW)
    assert less.total == 16
    assert next_change(less) == NOW + SHRINK_AFTER
    still = settle(less, [gpus(4)], NOW + timedelta(minutes=1))
    assert still.total == 16 and next_change(still) == NOW + SHRINK_AFTER
    assert settle(still, [gpus(4)], NOW + SHRINK_AFTER) == Inventory((gpus(4),), {})


def test_an_empty_answer_that_is_taken_back_changes_nothing() -> None:
    first = settle(Inventory(), [gpus(8)], NOW)
    empty = settle(first, [], NOW)
    assert empty.total == 8 and empty.shrinking
    assert settle(empty, [gpus(8)], NOW + timedelta(seconds=30)) == first


def test_what_stays_away_is_gone_whatever_else_comes() -> None:
    first = settle(Inventory(), [gpus(8)], NOW)
    other = gpus(2, "NVIDIA-H100-NVL")
    both = settle(first, [other], NOW)
    assert both.quotas == {"l40s": 8, "h100": 2}
    assert settle(both, [other], NOW + SHRINK_AFTER).quotas == {"h100": 2}
