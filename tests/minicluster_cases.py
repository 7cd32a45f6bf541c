"""For each rule of a MiniCluster: an object that it refuses, and one that its message recommends.

One table for the check in Python (unit tests) and for a real API server (integration tests).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAIN = {"image": "ubuntu", "command": "echo hello"}
RUNS = {**MAIN, "runFlux": True}
SIDE = {"image": "nginx", "name": "side"}


def minicluster(spec: Mapping[str, Any] | None, *, name: str = "flux-sample") -> dict[str, Any]:
    found: dict[str, Any] = {
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": {"name": name},
    }
    return found if spec is None else {**found, "spec": dict(spec)}


def of(**fields: Any) -> dict[str, Any]:
    """The spec with one container that runs Flux, and these fields."""
    return {"size": 4, "containers": [MAIN], **fields}


def main(**fields: Any) -> dict[str, Any]:
    """The spec whose one container has these fields."""
    return of(containers=[{**MAIN, **fields}])


def volume(where: str = "containers", **fields: Any) -> dict[str, Any]:
    one = {"image": "nginx", "name": "one", "volumes": {"data": fields}}
    return of(**({"containers": [one]} if where == "containers" else {"services": [one]}))


@dataclass(frozen=True)
class Case:
    """A refused creation: `bad` breaks the rule, `good` follows its message."""

    rule: str
    bad: Mapping[str, Any]
    good: Mapping[str, Any]
    says: str
    upstream: bool = False
    """A refusal that the upstream operator has, too."""


def case(rule: str, bad: Any, good: Any, says: str, *, upstream: bool = False) -> Case:
    return Case(rule, minicluster(bad), minicluster(good), says, upstream)


LEAD = {"name": "flux-sample", "address": "24.123.50.123", "port": 30093}

CREATIONS: tuple[Case, ...] = (
    case("maxsize-size", of(maxSize=3), of(maxSize=4), "MaxSize of cluster must be greater", upstream=True),
    case("backofflimit-negative", of(backoffLimit=-1), of(backoffLimit=0), "BackoffLimit", upstream=True),
    case(
        "minsize-maxsize",
        of(size=9, maxSize=9, minSize=10),
        of(size=9, maxSize=10, minSize=9),
        "MinSize of cluster must be less than MaxSize",
        upstream=True,
    ),
    case("minsize-size", of(minSize=5, maxSize=8), of(minSize=4, maxSize=8), "less than size", upstream=True),
    case("service-name", of(services=[{"image": "nginx"}]), of(services=[SIDE]), "a name", upstream=True),
    *(
        case(
            "service-commands",
            of(services=[{**SIDE, "commands": {name: "true"}}]),
            of(services=[{**SIDE, "commands": {"init": "true"}}]),
            "Services do not support Commands",
            upstream=True,
        )
        for name in ("pre", "brokerPre", "workerPre", "preBroker", "preWorker")
    ),
    case(
        "hostlist-clusters",
        of(flux={"bursting": {"hostlist": "a-[0-3]", "clusters": [{"size": 4}]}}),
        of(flux={"bursting": {"hostlist": "a-[0-3]"}}),
        "A custom hostlist cannot be provided",
        upstream=True,
    ),
    case(
        "hostlist-clusters",
        of(flux={"leadBroker": {**LEAD, "hostlist": "a"}, "bursting": {"clusters": [{"size": 4}]}}),
        of(flux={"leadBroker": LEAD, "bursting": {"clusters": [{"size": 4}]}}),
        "choose one or the other",
        upstream=True,
    ),
    case(
        "launcher-batch",
        main(launcher=True, batch=True),
        main(launcher=True),
        "choose one",
        upstream=True,
    ),
    case(
        "container-name",
        of(containers=[RUNS, {"image": "nginx"}]),
        of(containers=[RUNS, SIDE]),
        "missing a name",
        upstream=True,
    ),
    case(
        "script-command",
        main(commands={"script": "echo"}),
        of(containers=[{"image": "ubuntu", "commands": {"script": "echo"}}]),
        "both a script and command",
        upstream=True,
    ),
    case(
        "one-runner",
        of(containers=[{**RUNS, "name": "main"}, {**SIDE, "runFlux": True}]),
        of(containers=[RUNS, SIDE]),
        "exactly one",
        upstream=True,
    ),
    case("one-runner", of(containers=[{**MAIN, "name": "main"}, SIDE]), main(runFlux=False), "runFlux: true"),
    case("one-runner", of(containers=[]), of(), "exactly one"),
    case(
        "one-runner",
        of(containers=[{**MAIN, "name": "main", "runFlux": False}, {**SIDE, "runFlux": False}]),
        of(containers=[MAIN, {**SIDE, "runFlux": False}]),
        "runFlux: false in all others",
    ),
    case("container-image", of(containers=[{"command": "true"}]), of(), "missing an image"),
    case("container-image", of(services=[{"name": "side"}]), of(services=[SIDE]), "write one"),
    case(
        "service-names",
        of(services=[SIDE, SIDE]),
        of(services=[SIDE, {**SIDE, "name": "other"}]),
        "choose another",
    ),
    case(
        "sidecar-service-name",
        of(containers=[RUNS, {**SIDE, "name": "0side", "ports": [80]}]),
        of(containers=[RUNS, {**SIDE, "name": "0side"}]),
        "a letter first",
    ),
    *(
        case(
            "reserved-names",
            of(containers=[RUNS, {**SIDE, "name": name, "ports": [80]}], **more),
            of(containers=[RUNS, {**SIDE, "name": "free", "ports": [80]}], **more),
            "choose another name",
        )
        for name, more in (
            ("flux-sample", {}),
            ("flux-view", {}),
            ("brings", {"flux": {"container": {"name": "brings"}}}),
            ("flux-service", {}),
            ("mine", {"network": {"headlessName": "mine"}}),
        )
    ),
    *(
        case("reserved-names", of(flux={"container": {"name": name}}), of(), "choose another name")
        for name in ("flux-sample", "flux-sample-entrypoint", "flux-curve", "flux-operator-home")
    ),
    *(
        case(
            f"volume-{kind}-path",
            volume(where, **{field: "/data"}),
            volume(where, **{field: "/data", "path": "/data"}),
            "missing a path",
            upstream=True,
        )
        for where in ("containers", "services")
        for kind, field in (("claim", "claimName"), ("host", "hostPath"))
    ),
    *(
        case("volume-path", volume(**{field: "one"}), volume(**{field: "one", "path": "/one"}), "a path")
        for field in ("secretName", "configMapName", "csiDriver")
    ),
    case("volume-source", volume(readOnly=True), volume(emptyDir=True), "what it is"),
    case("volume-source", volume("services"), volume("services", path="/data"), "what it is"),
    Case(
        "name-text",
        minicluster(of(), name="n" * 53),
        minicluster(of(), name="n" * 52),
        "at most 52",
    ),
    Case("name-text", minicluster(of(), name="a.b"), minicluster(of(), name="a-b"), "lower-case"),
    case("spec-missing", None, of(), "at least one container"),
    case("size-positive", of(size=0), of(size=1), "suspend: true"),
    case(
        "flux-spelling",
        of(flux={"connectTimeout": "1s", "connextTimeout": ""}),
        of(flux={"connextTimeout": ""}),
        "one field",
    ),
    case(
        "flux-spelling",
        of(flux={"leadBroker": LEAD, "bursting": {"leadBroker": LEAD}}),
        of(flux={"leadBroker": LEAD}),
        "keep one",
    ),
    case("container-spelling", main(fluxUser={}, fluxuser={}), main(fluxuser={}), "keep one"),
    case(
        "container-spelling",
        main(commands={"workerPre": "a", "preWorker": "b"}),
        main(commands={"preWorker": "b"}),
        "keep one",
    ),
    case(
        "container-spelling",
        main(commands={"brokerPre": "a", "preBroker": "b"}),
        main(commands={"brokerPre": "a"}),
        "keep one",
    ),
    case(
        "container-names",
        of(containers=[RUNS, SIDE, SIDE]),
        of(containers=[RUNS, SIDE, {**SIDE, "name": "other"}]),
        "choose another",
    ),
    case(
        "container-name-text",
        of(containers=[RUNS, {**SIDE, "name": "My_Side"}]),
        of(containers=[RUNS, {**SIDE, "name": "my-side"}]),
        "lower-case",
    ),
    case(
        "container-name-text",
        of(services=[{**SIDE, "name": "n" * 64}]),
        of(services=[{**SIDE, "name": "n" * 63}]),
        "63",
    ),
    case(
        "view-name",
        of(flux={"container": {"name": "Flux"}}),
        of(flux={"container": {"name": "flux"}}),
        "lower-case",
    ),
    case(
        "launcher-batch-spec",
        of(launcher=True, containers=[{**MAIN, "batch": True}]),
        of(launcher=True),
        "remove that",
    ),
    case(
        "environment-names", of(flux={"environment": {"1A": "x"}}), of(flux={"environment": {"A1": "x"}}), "_"
    ),
    case(
        "headlessname-text", of(network={"headlessName": "My"}), of(network={"headlessName": "my"}), "Service"
    ),
    case(
        "mountpath-text",
        of(flux={"container": {"mountPath": "mnt flux"}}),
        of(flux={"container": {"mountPath": "/mnt/other"}}),
        "absolute",
    ),
    case("managedby-text", of(managedBy="me"), of(managedBy="kueue.x-k8s.io/multikueue"), "domain"),
)


@dataclass(frozen=True)
class Change:
    """A merge patch of a stored MiniCluster, with the status that it has: refused."""

    rule: str
    spec: Mapping[str, Any]
    patch: Mapping[str, Any]
    says: str
    maximum: int = 0
    """status.maximumSize."""


CHANGES: tuple[Change, ...] = (
    Change("managedby-fixed", of(managedBy="a.b/c", suspend=True), {"managedBy": None}, "new MiniCluster"),
    Change("managedby-fixed", of(managedBy="a.b/c", suspend=True), {"managedBy": "a.b/d"}, "new MiniCluster"),
    Change("size-maximum", of(), {"size": 5}, "never gets larger", 4),
    Change("size-maximum", of(maxSize=6), {"size": 7, "maxSize": 7}, "smaller size", 6),
    Change("spec-fixed", of(), {"tasks": 3}, "suspend: true first"),
    Change("spec-fixed", of(), {"containers": [{**MAIN, "command": "other"}]}, "new MiniCluster"),
    Change("spec-fixed", of(), {"pod": {"labels": {"a": "b"}}}, "new MiniCluster"),
    Change("spec-fixed", of(logging={"quiet": True}), {"logging": None}, "new MiniCluster"),
    Change("maxsize-size", of(maxSize=6), {"size": 7}, "raise maxSize"),
    Change("minsize-size", of(minSize=3), {"size": 2}, "lower minSize"),
)

FREE: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...] = (
    (of(), {"size": 1}),
    (of(maxSize=6), {"size": 6}),
    (of(), {"suspend": True}),
    (of(), {"cleanup": True, "deadlineSeconds": 60}),
    (of(suspend=True), {"tasks": 8, "containers": [{**MAIN, "command": "other"}], "suspend": False}),
)
"""A spec, and a change that passes."""
