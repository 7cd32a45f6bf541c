"""The pods that are made: what the page promises of their containers and volumes."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.rules import check_manifest
from tests.unit.systems.miniclusters.objects import (
    SETTINGS,
    TABLE,
    made,
    minicluster,
    mounts,
    pod,
    runner,
    scripts,
)

# --- pods --------------------------------------------------------------------------------------------


def test_affinity() -> None:
    found = pod(pod={"nodeAffinity": {"kubernetes.io/arch": ["arm64"]}})["affinity"]
    keys = [
        found[kind]["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"]["topologyKey"]
        for kind in ("podAffinity", "podAntiAffinity")
    ]
    assert keys == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    required = found["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    expression = {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}
    assert required["nodeSelectorTerms"] == [{"matchExpressions": [expression]}]
    assert "affinity" not in pod(network={"disableAffinity": True})


def test_options_of_the_pods() -> None:
    spec = TABLE["pod"]["spec"]
    found = made(**spec)
    for one in (
        found["Job/flux-sample"]["spec"]["template"]["spec"],
        found["Pod/flux-sample-services"]["spec"],
    ):
        assert one["restartPolicy"] == "OnFailure"
        assert one["serviceAccountName"] == "my-service-account"
        assert one["automountServiceAccountToken"] is False
        assert one["schedulerName"] == "fluence"
        assert one["nodeSelector"] == spec["pod"]["nodeSelector"]
        assert one["tolerations"] == spec["pod"]["tolerations"]
        assert one["dnsPolicy"] == "Default"
        assert one["securityContext"] == {"fsGroup": 100, "runAsUser": 1000}
        assert one["subdomain"] == "flux-service"
    main = pod(**spec)
    assert main["hostIPC"] is main["hostPID"] is True


def test_resources_of_a_pod_are_its_own_and_never_overhead() -> None:
    found = pod(pod={"resources": {"memory": "500M", "cpu": 4, "hugepages-2Mi": "2Mi", "x.example/gpu": 1}})
    assert found["resources"] == {"requests": {"memory": "500M", "cpu": "4", "hugepages-2Mi": "2Mi"}}
    assert "overhead" not in found
    one = {"x.example/gpu": "1"}
    assert found["containers"][0]["resources"] == {"requests": one, "limits": one}


def test_pull_secrets_of_all_images() -> None:
    found = pod(containers=TABLE["sidecars"]["spec"]["containers"], flux=TABLE["sidecars"]["spec"]["flux"])
    assert found["imagePullSecrets"] == [{"name": "pull"}, {"name": "view-pull"}]


def test_the_services_pod() -> None:
    services = [{"name": "nginx", "image": "nginx", "ports": [80]}]
    found = made(services=services)["Pod/flux-sample-services"]
    assert found["spec"]["hostname"] == "flux-sample-services"
    assert found["metadata"]["labels"][names.HEADLESS_LABEL] == "flux-service"
    assert "hpa-selector" not in found["metadata"]["labels"], "it is not a pod of the Job"
    (container,) = found["spec"]["containers"]
    assert (container["name"], container["ports"]) == ("nginx", [{"containerPort": 80, "protocol": "TCP"}])
    assert "command" not in container
    commands = {"init": "A=1", "servicePre": "B=2", "post": "echo bye"}
    found = made(services=[{"name": "s", "command": "serve", "commands": commands}])
    (container,) = found["Pod/flux-sample-services"]["spec"]["containers"]
    assert container["command"] == ["/bin/sh", "-c", "A=1\nB=2\nserve\necho bye"]


# --- containers --------------------------------------------------------------------------------------


def test_the_container_that_runs_flux() -> None:
    found = runner(
        {
            "workingDir": "/home",
            "environment": {"A": "b"},
            "secrets": {"TOKEN": {"name": "secret", "key": "token"}},
            "resources": {"limits": {"cpu": 4, "memory": "500M"}},
            "securityContext": {"privileged": False, "addCapabilities": ["SYS_PTRACE"]},
            "imagePullPolicy": "Never",
        }
    )
    assert found["name"] == "flux-sample"
    assert found["command"] == ["/bin/bash", "/flux_operator/wait-0.sh"]
    assert found["workingDir"] == "/home"
    assert found["env"] == [
        {"name": "A", "value": "b"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "token"}}},
    ]
    assert found["resources"] == {"limits": {"cpu": "4", "memory": "500M"}}
    assert found["securityContext"] == {"privileged": False, "capabilities": {"add": ["SYS_PTRACE"]}}
    assert found["imagePullPolicy"] == "Never"
    assert found["stdin"] is found["tty"] is True


def test_pull_always_wins() -> None:
    assert runner({"pullAlways": True, "imagePullPolicy": "Never"})["imagePullPolicy"] == "Always"
    assert runner()["imagePullPolicy"] == "IfNotPresent"


def test_hooks_are_shell_code_and_the_drain_stays() -> None:
    container = {"lifeCycle": {"postStartExec": "echo a b", "preStopExec": "echo bye"}}
    hooks = runner(container)["lifecycle"]
    assert hooks["postStart"] == {"exec": {"command": ["/bin/sh", "-c", "echo a b"]}}
    assert hooks["preStop"] == {"exec": {"command": ["/bin/bash", "/flux_operator/stop-0.sh"]}}
    assert "echo bye" in scripts(container)["stop-0"]


def test_ready_is_whose_broker_has_joined() -> None:
    found = runner()
    probe = found["startupProbe"]["exec"]["command"]
    assert "readinessProbe" not in found
    assert [runner(size=size)["startupProbe"]["periodSeconds"] for size in (1, 16, 64, 500)] == [1, 4, 16, 30]
    assert runner(size=2, maxSize=120)["startupProbe"]["periodSeconds"] == 1, "as many as start together"
    assert probe == ["/bin/bash", "/flux_operator/ready-0.sh"]
    assert "startupProbe" not in runner(flux={"disableSocket": True})


def test_without_a_view_its_image_is_not_pulled() -> None:
    """In a cluster without the internet nobody could pull it."""
    image = {"image": "mine:1", "imagePullPolicy": "Never"}
    (init,) = pod(image, flux={"container": {"disable": True}})["initContainers"]
    assert (init["image"], init["imagePullPolicy"]) == ("mine:1", "Never")
    (init,) = pod(image, flux={"container": {"disable": True, "image": "bash:1"}})["initContainers"]
    assert init["image"] == "bash:1"
    (init,) = pod(image)["initContainers"]
    assert init["image"] == SETTINGS.view_image


def test_the_container_that_brings_flux() -> None:
    found = pod(
        flux={
            "container": {
                "image": "view:1",
                "name": "view",
                "pullAlways": True,
                "workingDir": "/w",
                "resources": {"limits": {"cpu": "40"}},
                "securityContext": {"runAsUser": 0},
            }
        }
    )["initContainers"][0]
    assert found["command"] == ["/bin/bash", "/flux_operator/flux-init.sh"]
    assert (found["name"], found["image"], found["imagePullPolicy"]) == ("view", "view:1", "Always")
    assert (found["workingDir"], found["resources"]) == ("/w", {"limits": {"cpu": "40"}})
    assert found["securityContext"] == {"runAsUser": 0}
    assert pod()["initContainers"][0]["image"] == SETTINGS.view_image


def test_flux_in_the_image_needs_no_view() -> None:
    found = pod(flux={"container": {"disable": True, "image": "ubuntu:focal"}})
    assert found["initContainers"][0]["image"] == "ubuntu:focal", "it sets up the files all the same"
    assert "/opt/software" not in mounts(found["containers"][0])
    assert "views" not in scripts(flux={"container": {"disable": True}})["flux-init"]


def test_the_view_is_where_it_is_asked_for() -> None:
    found = pod(flux={"container": {"mountPath": "/mnt/other"}})
    for container in (*found["initContainers"], *found["containers"]):
        assert mounts(container)["/mnt/other"] == "flux-view"
    assert "/mnt/flux" not in str(scripts(flux={"container": {"mountPath": "/mnt/other"}}))


def test_sidecars() -> None:
    found = pod(containers=TABLE["sidecars"]["spec"]["containers"])
    by_name = {container["name"]: container for container in found["containers"]}
    assert "command" not in by_name["side"], "without a command the image's own entrypoint runs"
    assert by_name["wrapped"]["command"] == ["/bin/bash", "/flux_operator/start-2.sh"]
    assert {"/mnt/flux", "/flux_operator"} <= set(mounts(by_name["bare"])), "the page: it reaches the socket"
    assert "/flux_operator_curve" in mounts(by_name["flux-sample"])
    assert "/flux_operator_curve" not in mounts(by_name["wrapped"])
    assert "/d" not in mounts(by_name["flux-sample"]), "a sidecar's volume is the sidecar's"


def test_the_runner_may_come_second() -> None:
    found = pod(containers=[{"name": "side"}, {"image": "x", "command": "c", "runFlux": True}])
    assert [container["name"] for container in found["containers"]] == ["side", "flux-sample"]
    assert found["containers"][1]["command"][1] == "/flux_operator/wait-1.sh"


def test_empty_fields_of_typed_clients_are_as_absent() -> None:
    """Clients generated from the published API write empty texts, zeros and nulls for what is not set."""
    lead = {"address": "", "name": "", "size": 0}
    empty = {
        "network": {"headlessName": ""},
        "flux": {
            "container": {"name": "", "image": "", "mountPath": "", "workingDir": "", "pythonPath": ""},
            "bursting": {"leadBroker": lead, "hostlist": "", "clusters": None},
            "scheduler": {"queuePolicy": ""},
            "submitCommand": "",
            "curveCert": "",
            "brokerConfig": "",
            "environment": None,
        },
        "archive": {"path": ""},
        "pod": {"labels": None, "restartPolicy": "", "securityContext": {}, "resources": None},
        "services": None,
        "jobLabels": None,
        "maxSize": 0,
        "minSize": 0,
    }
    commands = {"prefix": "", "script": "", "init": "", "pre": "", "post": "", "workerPre": ""}
    container = {
        "name": "",
        "workingDir": "",
        "commands": commands,
        "lifeCycle": {"postStartExec": "", "preStopExec": ""},
        "logs": "",
        "imagePullPolicy": "",
        "ports": None,
        "volumes": None,
        "runFlux": False,
        "securityContext": {},
        "resources": {},
    }
    assert check_manifest({**minicluster(container, **empty), "metadata": {"name": "flux-sample"}}) == []
    message, unreported = made(container, **empty), made()
    for objects in (message, unreported):
        pod_ = objects["Job/flux-sample"]["spec"]["template"]["spec"]
        pod_.pop("securityContext", None)
        pod_["containers"][0].pop("securityContext", None)
    assert message == unreported


# --- volumes -----------------------------------------------------------------------------------------


VOLUMES = [
    ({"path": "/d", "hostPath": "/h"}, {"hostPath": {"path": "/h", "type": "Directory"}}),
    ({"path": "/d", "claimName": "c"}, {"persistentVolumeClaim": {"claimName": "c"}}),
    (
        {"path": "/d", "claimName": "c", "readOnly": True},
        {"persistentVolumeClaim": {"claimName": "c", "readOnly": True}},
    ),
    ({"path": "/d", "secretName": "s"}, {"secret": {"secretName": "s"}}),
    (
        {"path": "/d", "configMapName": "m", "items": {"k": "below/k"}},
        {"configMap": {"name": "m", "items": [{"key": "k", "path": "below/k"}]}},
    ),
    ({"emptyDir": True}, {"emptyDir": {}}),
    (
        {"emptyDir": True, "emptyDirMedium": "memory", "emptyDirSizeLimit": "1Gi"},
        {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    ),
    (
        {"path": "/d", "csiDriver": "d", "csiDriverAttributes": {"a": "b"}},
        {"csi": {"driver": "d", "readOnly": False, "volumeAttributes": {"a": "b"}}},
    ),
    ({"path": "/d", "secretName": "s", "claimName": "c"}, {"secret": {"secretName": "s"}}),
]


@pytest.mark.parametrize(("volume", "source"), VOLUMES)
def test_a_volume(volume: dict[str, Any], source: dict[str, Any]) -> None:
    found = pod({"volumes": {"data": volume}})
    assert {"name": "data", **source} in found["volumes"]
    mount = found["containers"][0]["volumeMounts"][-1]
    assert mount["mountPath"] == volume.get("path", "/dev/shm")
    assert mount.get("readOnly", False) == volume.get("readOnly", False)


def test_volumes_of_one_name_are_shared_if_equal_and_apart_if_not() -> None:
    def side(name: str, claim: str) -> dict[str, Any]:
        return {"name": name, "volumes": {"data": {"path": "/d", "claimName": claim}}}

    main = {**side("", "one"), "runFlux": True, "command": "c"}
    found = pod(containers=[main, side("same", "one"), side("other", "two"), side("more", "two")])
    claims = {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in found["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert claims == {"data": "one", "data-2": "two"}
    assert [mounts(container)["/d"] for container in found["containers"]] == [
        *("data", "data", "data-2", "data-2")
    ]
