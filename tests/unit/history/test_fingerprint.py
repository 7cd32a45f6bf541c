"""Which runs can be compared, and what makes them different."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from typing import Any

import pytest

from fournos.history.fingerprint import (
    CLUSTER_CLASS_LABEL,
    GPU_PRODUCT_LABEL,
    Fingerprint,
    cluster_class,
    fingerprint,
    fingerprint_of,
)


def spec(**changes: Any) -> dict[str, Any]:
    forge = {"project": "llmd", "args": ["cks", "--model=llama-8b"], "configOverrides": {"batch_size": 64}}
    hardware = {"gpuType": "h200", "gpuCount": 2}
    return {
        "pipeline": "forge-full",
        "executionEngine": {"forge": forge},
        "hardware": hardware,
        **changes,
    }


def forge(**changes: Any) -> dict[str, Any]:
    value = {**spec()["executionEngine"]["forge"], **changes}
    return spec(executionEngine={"forge": value})


def test_readable_parts() -> None:
    found = fingerprint(spec(), None, "H200x8")
    assert found == Fingerprint(
        pipeline="forge-full",
        engine="forge",
        project="llmd",
        args=("cks", "--model=llama-8b"),
        config='{"configOverrides":{"batch_size":64}}',
        model="llama-8b",
        gpu_type="h200",
        gpu_count=2,
        cluster_class="H200x8",
    )
    assert str(found) == "forge-full, llmd, cks --model=llama-8b, llama-8b, 2 x h200, H200x8"


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        (spec(pipeline="forge-test-only"), "pipeline"),
        (spec(hardware={"gpuType": "a100", "gpuCount": 2}), "gpu_type"),
        (spec(hardware={"gpuType": "h200", "gpuCount": 4}), "gpu_count"),
        (forge(project="rhaiis"), "project"),
        (forge(args=["--model=llama-8b", "cks"]), "args"),
        (forge(configOverrides={"batch_size": 128}), "config"),
        (spec(executionEngine={"other": spec()["executionEngine"]["forge"]}), "engine"),
    ],
)
def test_what_counts(changed: dict[str, Any], part: str) -> None:
    first, second = fingerprint(spec()), fingerprint(changed)
    parts = [one.name for one in fields(Fingerprint)]
    assert [name for name in parts if getattr(first, name) != getattr(second, name)] == [part]
    assert first.id != second.id


@pytest.mark.parametrize(
    "changed",
    [
        spec(owner="me", displayName="x", priority="high", ttl="1h", env={"BUILD_ID": "17"}),
        spec(exclusive=False, secretRefs=["a"], timeouts={"pipeline": "1h"}),
        forge(ref="main", sha="abc", image_tag="v2", pullNumber=7),
        forge(configOverrides={"batch_size": 64, "vllm.image": "x:2"}),
    ],
)
def test_what_does_not_count(changed: dict[str, Any]) -> None:
    assert fingerprint(spec()) == fingerprint(changed)
    assert fingerprint(spec()).id == fingerprint(changed).id


def test_resolved_hardware_comes_first() -> None:
    found = fingerprint(spec(), {"hardware": {"gpuType": "a100", "gpuCount": 8}})
    assert (found.gpu_type, found.gpu_count) == ("a100", 8)
    assert fingerprint(spec(), {"hardware": None}).gpu_type == "h200"


@pytest.mark.parametrize(
    ("value", "model"),
    [
        ({"args": ["--model", "llama"]}, "llama"),
        ({"args": ["model_name=llama"]}, "llama"),
        ({"args": ["--model"]}, ""),
        ({"args": {"model": "llama"}}, "llama"),
        ({"configOverrides": {"tests.llmd.model_name": "llama"}}, "llama"),
        ({"configOverrides": {"vllm": {"model": {"name": "llama"}}}}, "llama"),
        ({"configOverrides": {"z": {"model": "deep"}, "model": "high"}}, "high"),
        ({"configOverrides": {"model": 7}}, ""),
        ({}, ""),
    ],
)
def test_the_model_is_found(value: dict[str, Any], model: str) -> None:
    assert fingerprint(spec(executionEngine={"forge": value})).model == model


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"executionEngine": None},
        {"executionEngine": []},
        {"executionEngine": {"forge": None}},
        {"executionEngine": {"forge": "text"}},
        {"executionEngine": {"b": {}, "a": {}}},
        {"executionEngine": {"forge": {"args": 7, "project": ["x"]}}, "hardware": {"gpuCount": True}},
    ],
)
def test_any_object_has_a_fingerprint(odd: dict[str, Any]) -> None:
    assert len(fingerprint(odd).id) == 16
    assert fingerprint(odd).pipeline == "fournos-full"


def test_an_endless_configuration_ends() -> None:
    deep: dict[str, Any] = {}
    for _ in range(150):
        deep = {"a": [deep]}
    assert fingerprint(forge(configOverrides=deep)).config


def test_the_hash_is_the_same_in_every_process_and_release() -> None:
    code = (
        "from fournos.history.fingerprint import fingerprint;"
        "print(fingerprint({'executionEngine': {'forge': {'b': {'y': 1, 'x': 2}, 'a': 3}}}, None, 'c').id)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {"7fde6f415abe11cb"}, "a stored history would lose its series"


def cluster(gpus: list[dict[str, Any]], **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "cluster-1", "labels": labels}, "status": {"hardware": {"gpus": gpus}}}


SXM = {"model": "NVIDIA-A100-SXM4-80GB", "shortName": "a100", "count": 16, "nodeCount": 2}
PCIE = {"model": "NVIDIA-A100-PCIE-40GB", "shortName": "a100", "count": 2, "nodeCount": 1}
H200 = {"model": "NVIDIA-H200", "shortName": "h200", "count": 8, "nodeCount": 1}


def test_the_class_of_a_cluster() -> None:
    assert cluster_class(cluster([SXM, H200]), "a100") == "NVIDIA-A100-SXM4-80GBx8"
    assert cluster_class(cluster([H200, SXM, PCIE]), "a100") == cluster_class(cluster([PCIE, SXM]), "a100")
    assert cluster_class(cluster([SXM]), "a100") != cluster_class(cluster([PCIE]), "a100")
    assert cluster_class(cluster([SXM], **{CLUSTER_CLASS_LABEL: "lab-1"}), "a100") == "lab-1"
    assert cluster_class(cluster([SXM]), "h200") == ""
    assert cluster_class(cluster([SXM])) == ""


def test_a_job_object() -> None:
    status = {"cluster": "cluster-1", "resolved": {"hardware": {"gpuType": "a100", "gpuCount": 8}}}
    job = {"metadata": {"name": "one"}, "spec": spec(), "status": status}
    assert fingerprint_of(job, cluster([SXM])).cluster_class == "NVIDIA-A100-SXM4-80GBx8"
    assert fingerprint_of(job).cluster_class == ""
    assert fingerprint_of(job, cluster([])).cluster_class == ""
    assert fingerprint_of({**job, "spec": spec(clusterless=True)}).cluster_class == "clusterless"
    assert fingerprint_of({**job, "status": {}}).cluster_class == ""


def flavor(name: str, labels: dict[str, str] | None = None, **nodes: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"nodeLabels": nodes}}


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        (flavor("a"), flavor("b"), True),
        (flavor("a", {CLUSTER_CLASS_LABEL: "lab"}), flavor("b", {CLUSTER_CLASS_LABEL: "lab"}), True),
        (flavor("a", {CLUSTER_CLASS_LABEL: "lab"}), flavor("b"), False),
        (
            flavor("a", **{GPU_PRODUCT_LABEL: "A100-SXM"}),
            flavor("b", **{GPU_PRODUCT_LABEL: "A100-PCIE"}),
            False,
        ),
        (
            flavor("a", **{GPU_PRODUCT_LABEL: "A100-SXM"}),
            flavor("b", **{GPU_PRODUCT_LABEL: "A100-SXM"}),
            True,
        ),
        (flavor("a", **{"fournos.dev/cluster": "a"}), flavor("b", **{"fournos.dev/cluster": "b"}), True),
    ],
)
def test_without_hearth_the_class_is_the_gpus_and_what_the_flavor_says(
    first: Any, second: Any, alike: bool
) -> None:
    """Two like clusters are one class, as long as nothing says that they differ."""

    def of(target: Any, **hardware: Any) -> Fingerprint:
        status = {"cluster": target["metadata"]["name"], "resolved": {"hardware": hardware}}
        return fingerprint_of({"metadata": {"name": "one"}, "spec": spec(), "status": status}, target)

    gpus = {"gpuType": "a100", "gpuCount": 8}
    assert (of(first, **gpus) == of(second, **gpus)) is alike
    assert of(first, **gpus) != of(first, gpuType="a100", gpuCount=4) != of(first, gpuType="h200", gpuCount=4)


def test_a_job_without_gpus_is_compared_within_its_cluster() -> None:
    job = {"metadata": {"name": "one"}, "spec": {"pipeline": "p"}, "status": {"cluster": "a"}}
    assert fingerprint_of(job, flavor("a")).cluster_class == "a"
    assert fingerprint_of(job, flavor("a", {CLUSTER_CLASS_LABEL: "lab"})).cluster_class == "lab"


@pytest.mark.parametrize(
    ("counting", "changed", "same"),
    [
        (None, {"params": {"model": "b", "log": "x"}}, {"env": {"CI": "2"}}),
        (None, {"params": {"model": "a", "log": "y"}}, {}),
        ("params.model", {"params": {"model": "b", "log": "x"}}, {"params": {"model": "a", "log": "y"}}),
        ("params.model, env.CI", {"env": {"CI": "2"}}, {"params": {"model": "a", "log": "y"}}),
        ("env", {"env": {"CI": "2"}}, {"params": {"model": "b"}}),
        ("", {"pipeline": "other"}, {"params": {"model": "b"}, "env": {}}),
    ],
)
def test_parameters_count_as_the_pipeline_says(counting: str | None, changed: Any, same: Any) -> None:
    resolved = {} if counting is None else {"fingerprint": counting}
    base = {"params": {"model": "a", "log": "x"}, "env": {"CI": "1"}}

    def of(change: Any) -> Fingerprint:
        return fingerprint(spec(**{**base, **change}), resolved)

    assert of({}).id != of(changed).id
    assert of({}).id == of(same).id


def test_parameters_are_shown_and_a_run_without_them_keeps_its_identifier() -> None:
    params = {"model": "a", "batches": ["1", "2"]}
    assert "batches=['1', '2'], model=a" in str(fingerprint(spec(params=params)))
    assert fingerprint({"params": params}).model == "a"
    assert fingerprint({"params": {"batch": 32}}).id == fingerprint({"params": {"batch": "32"}}).id
    assert "params" not in fingerprint(spec()).as_data()
    assert fingerprint(spec()).id == fingerprint(spec(params={}, env={"CI": "1"})).id
