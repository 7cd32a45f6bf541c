"""For each rule of a FournosJob: an object that it refuses, and one that its message recommends.

One table for the check in Python (unit tests) and for a real API server (integration tests).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ENGINE = {"forge": {"project": "llmd"}}
SHARED = {"executionEngine": ENGINE, "exclusive": False}
"""The shortest spec that passes."""


def job(
    spec: Mapping[str, Any] | None = None, *, name: str = "job", phase: str | None = None
) -> dict[str, Any]:
    obj: dict[str, Any] = {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosJob",
        "metadata": {"name": name},
    }
    if spec is not None:
        obj["spec"] = dict(spec)
    if phase is not None:
        obj["status"] = {"phase": phase}
    return obj


@dataclass(frozen=True)
class Case:
    """A refused write: `bad` breaks the rule, `good` follows its message."""

    rule: str
    bad: Mapping[str, Any]
    good: Mapping[str, Any]
    says: str
    """Part of the message: the fix."""
    also: tuple[str, ...] = ()
    """Other rules that it breaks unavoidably."""


def shared(**fields: Any) -> dict[str, Any]:
    return {**SHARED, **fields}


def hardware(**fields: Any) -> dict[str, Any]:
    return shared(hardware=fields)


def case(rule: str, bad: Any, good: Any, says: str, *also: str) -> Case:
    return Case(rule, job(bad), job(good), says, also)


A100 = {"gpuType": "a100", "gpuCount": 2}
H200 = {"gpuType": "h200", "gpuCount": 1}
CHOICE = hardware(**A100, alternatives=[H200, {"gpuType": "l40", "gpuCount": 8}])
LOCK = {"lockOnly": True, "cluster": "c1"}
NONE = {"executionEngine": ENGINE, "clusterless": True}

CREATIONS: tuple[Case, ...] = (
    case("spec-missing", None, SHARED, "executionEngine"),
    case("engine-missing", {"exclusive": False}, SHARED, "executionEngine: {forge: {project: llmd}}"),
    case("engine-missing", shared(executionEngine={}), LOCK, "lockOnly: true goes without"),
    case("engine-single", shared(executionEngine={"a": {}, "b": 1}), SHARED, "exactly one key"),
    case("exclusive-cluster", {"executionEngine": ENGINE}, SHARED, "write exclusive: false"),
    case(
        "exclusive-cluster",
        {"executionEngine": ENGINE, "exclusive": True, "hardware": A100},
        {"executionEngine": ENGINE, "cluster": "c1", "hardware": A100},
        "name the cluster",
    ),
    case(
        "exclusive-cluster", {"executionEngine": ENGINE, "cluster": ""}, SHARED, "exclusive defaults to true"
    ),
    case("lock-cluster", {"lockOnly": True}, LOCK, "write cluster:"),
    case("lock-exclusive", {**LOCK, "exclusive": False}, LOCK, "leave exclusive out"),
    case("clusterless-lock", {**LOCK, "clusterless": True}, LOCK, "remove one"),
    case("clusterless-exclusive", NONE, {**NONE, "exclusive": False}, "write exclusive: false"),
    case(
        "clusterless-cluster",
        shared(clusterless=True, cluster="c1"),
        shared(clusterless=True),
        "remove cluster",
    ),
    case("hardware-both", hardware(gpuType="a100"), hardware(**A100), "gpuCount"),
    case("hardware-both", hardware(gpuCount=2), hardware(**A100), "gpuType"),
    case("hardware-both", hardware(), SHARED, "leave hardware out"),
    case("hardware-both", hardware(gpuType="", gpuCount=1), hardware(**A100), "gpuType"),
    *(
        case("alternatives-complete", hardware(**A100, alternatives=[H200, bad]), CHOICE, "of each")
        for bad in ({"gpuType": "l40"}, {"gpuCount": 1}, {**H200, "gpuType": "H200"}, {**H200, "gpuType": ""})
    ),
    Case("name-length", job(SHARED, name="n" * 56), job(SHARED, name="n" * 55), "at most 55"),
    case("gputype-text", hardware(gpuType="A100", gpuCount=1), hardware(**A100), "lower case"),
    case(
        "gputype-text", hardware(gpuType="fournos/gpu-a100", gpuCount=1), hardware(**A100), "without a prefix"
    ),
    case(
        "gputype-text", hardware(gpuType="a" * 60, gpuCount=1), hardware(gpuType="a" * 59, gpuCount=1), "59"
    ),
    case("cluster-text", shared(cluster="C1"), shared(cluster="c1"), "lower case"),
    case("cluster-text", shared(cluster="-c"), shared(cluster="c"), "ResourceFlavor"),
    case("cluster-text", shared(cluster="c" * 64), shared(cluster="c" * 63), "63"),
    case("cluster-text", shared(cluster="c\n"), shared(cluster="c"), "ResourceFlavor"),
    case("pipeline-text", shared(pipeline="My_Pipe"), shared(pipeline="my-pipe.v1"), "lower case"),
    case("pipeline-text", shared(pipeline=""), SHARED, "leave it out"),
    case("pipeline-text", shared(pipeline="p" * 64), shared(pipeline="p" * 63), "63"),
    case("priority-text", shared(priority="Very High"), shared(priority="nightly"), "WorkloadPriorityClass"),
    case("priority-text", shared(priority="p" * 254), shared(priority="p" * 253), "253"),
    case(
        "priority-reserved", shared(priority="fournos-lock-held"), shared(priority="manual"), "name another"
    ),
    case("managedby-text", shared(managedBy="me"), shared(managedBy="kueue.x-k8s.io/multikueue"), "domain"),
    case("managedby-text", shared(managedBy="a.b/" + "x" * 60), shared(managedBy="a.b/" + "x" * 59), "63"),
    case("ttl-text", shared(ttl="1w"), shared(ttl="7d"), "7d"),
    case("ttl-text", shared(ttl="1h30m"), shared(ttl="90m"), "30m"),
    case("owner-plain", shared(owner="\x1b[2Kroot"), shared(owner="Zoë's team\u200d"), "control"),
    case(
        "displayname-plain", shared(displayName="a\x9b8mb"), shared(displayName="a b"), "control characters"
    ),
    case("displayname-plain", shared(displayName="a\nb"), shared(displayName=""), "control"),
    case(
        "displayname-plain", shared(displayName="a\u202eb"), shared(displayName="שלום"), "control characters"
    ),
    case("displayname-length", shared(displayName="ü" * 254), shared(displayName="ü" * 253), "253"),
    case("secretrefs-text", shared(secretRefs=["My"]), shared(secretRefs=["my"]), "lower case"),
    case("secretrefs-text", shared(secretRefs=["a..b"]), shared(secretRefs=["a.b"]), "my-creds"),
    case("secretrefs-text", shared(secretRefs=["a" * 63 + "-"]), shared(secretRefs=["a" * 253]), "253"),
    case("secretrefs-twice", shared(secretRefs=["a", "b", "a"]), shared(secretRefs=["a", "b"]), "once"),
    case(
        "secretrefs-twice",
        shared(secretRefs=["my-creds", "vault-my-creds"]),
        shared(secretRefs=["my-creds"]),
        "same",
    ),
    case(
        "secretrefs-kubeconfig",
        shared(secretRefs=["kubeconfig"]),
        shared(secretRefs=["vault-kubeconfig"]),
        "write vault-kubeconfig",
    ),
    case("params-own", shared(params={"fjob-name": "x"}), shared(params={"m": ["x", "y"]}), "remove them"),
    case("env-names", shared(env={"1A": "x"}), shared(env={"A1": "x"}), "digit"),
    case("env-names", shared(env={"A=B": "x"}), shared(env={"A.B-C_D": ""}), "letters"),
    case("env-names", shared(env={"": "x"}), shared(env={}), "letters"),
    case(
        "timeouts-pipeline",
        shared(timeouts={"pipeline": "1d"}),
        shared(timeouts={"pipeline": "24h"}),
        "h, m and s",
    ),
    case("timeouts-pipeline", shared(timeouts={"pipeline": "0s"}), shared(timeouts={}), "positive"),
    case(
        "timeouts-pipeline",
        shared(timeouts={"pipeline": "999999h" * 4}),
        shared(timeouts={"pipeline": "99h"}),
        "h",
    ),
    case(
        "timeouts-tasks", shared(timeouts={"tasks": "-1h"}), shared(timeouts={"tasks": "1h30m"}), "positive"
    ),
    case("timeouts-tasks", shared(timeouts={"tasks": "soon"}), shared(timeouts={"tasks": "1.5h"}), "24h0m0s"),
    case("timeouts-finally", shared(timeouts={"finally": "1"}), shared(timeouts={"finally": "1s"}), "1h0m0s"),
    case(
        "timeouts-pending", shared(timeouts={"pending": "1 h"}), shared(timeouts={"pending": "1h"}), "1h30m"
    ),
    case("retry-backoff", shared(retry={"backoff": "1us"}), shared(retry={"backoff": "1ms"}), "30s"),
    case(
        "retry-backoff", shared(retry={"limit": 1, "backoff": ""}), shared(retry={"limit": 1}), "leave it out"
    ),
    case(
        "timeouts-fit",
        shared(timeouts={"pipeline": "1h", "tasks": "50m", "finally": "11m"}),
        shared(timeouts={"pipeline": "1h", "tasks": "50m", "finally": "10m"}),
        "tasks and finally together",
    ),
    case(
        "timeouts-fit",
        shared(timeouts={"pipeline": "1h", "tasks": "2h"}),
        shared(timeouts={"tasks": "2h"}),
        "leave it out",
    ),
    case(
        "timeouts-fit",
        shared(timeouts={"pipeline": "1h", "finally": "1h"}),
        shared(timeouts={"pipeline": "1h", "finally": "59m59s999ms"}),
        "raise pipeline",
    ),
)


@dataclass(frozen=True)
class Change:
    """A merge patch of a job with this spec: refused in `phases`, fine in the others."""

    rule: str
    spec: Mapping[str, Any]
    patch: Mapping[str, Any]
    phases: tuple[str | None, ...]
    says: str


PHASES = ("Resolving", "Pending", "Admitted", "Running", "Stopping", "Succeeded", "Failed", "Stopped")
RESOLVED = PHASES[1:]
ADMITTED = PHASES[2:]
ALWAYS = (None, *PHASES)

FULL = shared(
    cluster="c1",
    pipeline="p1",
    hardware=A100,
    secretRefs=["one"],
    priority="nightly",
    params={"model": "m1"},
    managedBy="a.b/c",
    shutdown="Stop",
)

CHANGES: tuple[Change, ...] = (
    Change("pipeline-frozen", FULL, {"pipeline": "p2"}, ADMITTED, "new job"),
    Change("pipeline-frozen", FULL, {"pipeline": None}, ADMITTED, "new job"),
    Change("cluster-frozen", FULL, {"cluster": "c2"}, ADMITTED, "new job"),
    Change("cluster-frozen", FULL, {"cluster": None}, ADMITTED, "new job"),
    Change("exclusive-frozen", FULL, {"exclusive": True}, ADMITTED, "new job"),
    Change("exclusive-frozen", FULL, {"exclusive": None}, ADMITTED, "new job"),
    *(
        Change("executionengine-frozen", FULL, {"executionEngine": engine}, ADMITTED, "new job")
        for engine in (
            {"forge": {"project": "other"}},
            {"forge": {"project": None, "other": 1}},
            {"forge": {"more": [1]}},
            {"forge": None, "other": ENGINE["forge"]},
            {"forge": 1},
        )
    ),
    Change("params-frozen", FULL, {"params": {"model": "m2"}}, ADMITTED, "new job"),
    Change("params-frozen", FULL, {"params": {"model": ["m1"]}}, ADMITTED, "new job"),
    Change("params-frozen", FULL, {"params": {"batch": "1"}}, ADMITTED, "new job"),
    Change("params-frozen", FULL, {"params": None}, ADMITTED, "new job"),
    Change("priority-frozen", FULL, {"priority": "manual"}, ADMITTED, "new job"),
    Change("priority-frozen", SHARED, {"priority": "manual"}, ADMITTED, "new job"),
    Change("clusterless-frozen", SHARED, {"clusterless": True}, ADMITTED, "new job"),
    Change("lockonly-frozen", LOCK, {"lockOnly": False, "executionEngine": ENGINE}, RESOLVED, "new job"),
    Change("hardware-frozen", FULL, {"hardware": {"gpuCount": 3}}, RESOLVED, "new job"),
    Change("hardware-frozen", FULL, {"hardware": None}, RESOLVED, "new job"),
    Change("hardware-frozen", SHARED, {"hardware": A100}, RESOLVED, "new job"),
    Change("secretrefs-frozen", FULL, {"secretRefs": ["one", "two"]}, RESOLVED, "new job"),
    Change("secretrefs-frozen", SHARED, {"secretRefs": ["one"]}, RESOLVED, "new job"),
    Change("shutdown-raised", FULL, {"shutdown": None}, ALWAYS, "never taken back"),
    Change(
        "shutdown-raised", {**FULL, "shutdown": "Terminate"}, {"shutdown": "Stop"}, ALWAYS, "raised from Stop"
    ),
    Change("managedby-fixed", FULL, {"managedBy": "a.b/d"}, ALWAYS, "new job"),
    Change("managedby-fixed", FULL, {"managedBy": None}, ALWAYS, "new job"),
    # Before the first phase the operator itself sets it, where the queue leads to other clusters.
    Change("managedby-fixed", SHARED, {"managedBy": "a.b/d"}, ALWAYS[1:], "new job"),
)

FREE: tuple[Mapping[str, Any], ...] = (
    {"shutdown": "Stop"},
    {"shutdown": "Terminate"},
    {"ttl": "7d"},
    {"displayName": "another"},
    {"owner": "them"},
    {"suspend": True},
    {"env": {"A": "b"}},
    {"timeouts": {"tasks": "1h"}},
    {"retry": {"limit": 3}},
    {"clusterless": False},
)
"""Changes of SHARED that pass in every phase; `clusterless: false` is what its absence means."""


def merged(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7386."""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            result[key] = merged(result.get(key) or {}, value)
        else:
            result[key] = value
    return result
