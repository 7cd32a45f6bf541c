"""Three clusters of different makes: added, rotated, broken, healed, locked, unlocked, decommissioned."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import yaml

from tests.e2e.clusters.conftest import JOBS, SECRETS, Person, Target
from tests.e2e.hub import Hub

SLOT = "fournos/cluster-slot"
QUICK = "HEARTH_RECONCILE_INTERVAL_SEC=2 HEARTH_GPU_DISCOVERY_TIMEOUT_SEC=3"
READER = "rotated"


@pytest.fixture(scope="module", autouse=True)
def quick(person: Person) -> None:
    """What takes half a minute and more as shipped takes seconds."""
    person(f"oc set env deployment/hearth -n hearth {QUICK}")
    person("oc rollout status deployment/hearth -n hearth --timeout=180s", limit=200)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fournos-mock-config"}}
    jobs_of(person).apply({**config, "data": {"sleep": "1"}})


def jobs_of(person: Person) -> Hub:
    return replace(person.hub, namespace=JOBS)


def submit(person: Person, name: str, target: Target) -> str:
    gpus = {"gpuType": target.short, "gpuCount": 1}
    return jobs_of(person).submit(name, cluster=target.name, hardware=gpus)


def exchange(person: Person, target: Target, kubeconfig: bytes) -> None:
    data = {"kubeconfig": base64.b64encode(kubeconfig).decode()}
    words = ("patch", "secret", f"kubeconfig-{target.name}", "-n", SECRETS, "--type=merge", "-p")
    person.hub.kubectl(*words, json.dumps({"data": data}))


def token_of(target: Target) -> bytes:
    """Returns a kubeconfig of a cluster administrator with a token that is valid for an hour."""
    hub = target.hub()
    hub.run("create", "serviceaccount", READER)
    admin = ("--clusterrole=cluster-admin", f"--serviceaccount=default:{READER}")
    hub.kubectl("create", "clusterrolebinding", READER, *admin)
    config: dict[str, Any] = yaml.safe_load(target.kubeconfig.read_text())
    token = hub.run("create", "token", READER, "--duration=1h").strip()
    return yaml.safe_dump(config | {"users": [{**config["users"][0], "user": {"token": token}}]}).encode()


@contextmanager
def dropped(target: Target) -> Iterator[None]:
    """Packets to the cluster vanish on their way; nothing is refused or closed."""
    rule = ["FORWARD", "-d", target.ip, "-j", "DROP"]
    subprocess.run(["iptables", "-w", "5", "-I", *rule], check=True)
    try:
        yield
    finally:
        subprocess.run(["iptables", "-w", "5", "-D", *rule], check=True)


def test_added(person: Person, targets: dict[str, Target]) -> None:
    for target in targets.values():
        person(
            f"oc create secret generic kubeconfig-{target.name} -n {SECRETS} "
            f"--from-file=kubeconfig={person.directory}/{target.name}-kubeconfig\n"
            f"oc label secret kubeconfig-{target.name} fournos.dev/cluster-kubeconfig=true -n {SECRETS}"
        )
    for target in targets.values():
        wanted = {f"fournos/gpu-{target.short}": 2, SLOT: 100}
        person.hub.until(
            lambda name=target.name, wanted=wanted: wanted.items() <= person.quotas().get(name, {}).items(),
            lambda name=target.name: f"{name}: {person.quotas()} {person.cluster(name)}",
        )
    shown = person("fournos cluster list")
    assert shown.splitlines()[0].split() == ["NAME", "OWNER", "GPUS", "KUBECONFIG", "LOCKED", "JOBS", "AGE"]
    for target in targets.values():
        assert f"2x {target.summary}" in shown
    assert shown.count("Valid") == 3


def test_drained_and_locked(person: Person, targets: dict[str, Target]) -> None:
    """While the other tests happen."""
    plain, jobs = targets["oven-plain"], jobs_of(person)
    shown = person("fournos cluster lock oven-plain --owner ann --ttl 1h --drain wait")
    assert "oven-plain: locked for ann until 20" in shown
    status = person.cluster(plain.name)["status"]
    assert status["locked"] is True and status["lock"]["state"] == "Held"
    refused = person("fournos cluster lock oven-plain --owner bob", fails=True)
    assert "oven-plain is locked for ann" in refused
    submit(person, "behind", plain)
    jobs.until(
        lambda: "oven-plain" in (jobs.status("behind").get("message") or ""),
        lambda: str(jobs.status("behind")),
    )
    assert jobs.status("behind")["phase"] == "Pending"


def test_rotated_broken_and_healed(person: Person, targets: dict[str, Target]) -> None:
    nvidia = targets["oven-nvidia"]
    good = nvidia.kubeconfig.read_bytes()

    def connection() -> dict[str, Any]:
        return person.cluster(nvidia.name)["status"]["connection"]  # type: ignore[no-any-return]

    before = connection()
    exchange(person, nvidia, token_of(nvidia))
    person.hub.until(
        lambda: (
            connection()["secretVersion"] != before["secretVersion"]
            and connection().get("certificateExpires") != before["certificateExpires"]
        ),
        lambda: f"the new token is not used: {connection()}",
    )
    assert person.cluster(nvidia.name)["status"]["kubeconfigStatus"] == "Valid"
    assert person.condition(nvidia.name, "KubeconfigValid")["reason"] == "ExpiresSoon"

    # Its token is withdrawn: nobody but a new Secret can help, and the status says so.
    nvidia.hub().run("delete", "serviceaccount", READER)
    nvidia.hub().kubectl("delete", "clusterrolebinding", READER)
    lost = person.until_condition(nvidia.name, "Reachable", "False")
    assert lost["reason"] == "Unauthorized"
    assert person.cluster(nvidia.name)["status"]["kubeconfigStatus"] == "Invalid"
    person.hub.until(lambda: person.quotas()[nvidia.name][SLOT] == 0, lambda: "it still takes jobs")
    exchange(person, nvidia, good)
    person.until_condition(nvidia.name, "Reachable", "True")

    exchange(person, nvidia, b"]['")
    refused = person.until_condition(nvidia.name, "KubeconfigValid", "False")
    assert refused["reason"] == "InvalidKubeconfig"
    exchange(person, nvidia, good)
    person.until_condition(nvidia.name, "KubeconfigValid", "True")
    person.hub.until(lambda: person.quotas()[nvidia.name][SLOT] == 100, lambda: "it takes no jobs again")


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("iptables") is None, reason="dropping packets needs root and iptables"
)
def test_a_job_for_an_unreachable_cluster_reports_it_and_runs_when_it_recovers(
    person: Person, targets: dict[str, Target]
) -> None:
    amd, jobs = targets["oven-amd"], jobs_of(person)
    with dropped(amd):
        lost = person.until_condition(amd.name, "Reachable", "False")
        assert lost["reason"] == "Timeout"
        status = person.cluster(amd.name)["status"]
        assert (status["kubeconfigStatus"], status["gpuSummary"]) == ("Unreachable", f"2x {amd.summary}")
        person.hub.until(lambda: person.quotas()[amd.name][SLOT] == 0, lambda: "it still takes jobs")
        submit(person, "patient", amd)
        expected = "Cluster oven-amd takes no jobs: it cannot be reached. Waiting until it does"
        jobs.until(
            lambda: jobs.status("patient").get("message") == expected, lambda: str(jobs.status("patient"))
        )
        shown = person(f"fournos explain patient -n {JOBS}")
        assert "patient waits. Cluster oven-amd takes no jobs: it cannot be reached." in shown
        assert person.condition("oven-plain", "Reachable")["status"] == "True"
    person.until_condition(amd.name, "Reachable", "True")
    assert jobs.wait("patient")["phase"] == "Succeeded"


def test_unlocked(person: Person) -> None:
    assert "oven-plain: unlocked" in person("fournos cluster unlock oven-plain")
    assert jobs_of(person).wait("behind")["phase"] == "Succeeded"
    found = person.cluster("oven-plain")
    assert not found["spec"].get("owner") and "drain" not in found["spec"]


def test_decommissioned(person: Person, targets: dict[str, Target]) -> None:
    person("oc delete fournoscluster oven-nvidia -n hearth", limit=90)
    person(f"oc delete secret kubeconfig-oven-amd -n {SECRETS}")
    person(f"oc label secret kubeconfig-oven-plain fournos.dev/cluster-kubeconfig- -n {SECRETS}")
    person.hub.until(
        lambda: not person.hub.list("fournosclusters"), lambda: str(person.hub.list("fournosclusters"))
    )
    assert not set(targets) & set(person.quotas())
    ours = {f"fournos/gpu-{target.short}" for target in targets.values()}
    assert not any(ours & set(quotas) for quotas in person.quotas().values())
    left = person.hub.kubectl("get", "resourceflavors", "-o", "name")
    assert "oven" not in left
    log = person("oc logs -n hearth -l app=hearth --tail=-1")
    assert "forbidden" not in log.lower() and "Traceback" not in log, log
