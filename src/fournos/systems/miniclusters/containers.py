"""The containers of the pods: the init container with Flux, the one that runs Flux, and the sidecars."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from fournos.api.minicluster_container import Container, ContainerVolume
from fournos.api.minicluster_values import quantities
from fournos.systems.miniclusters import names, script
from fournos.systems.miniclusters.spec import Cluster

_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - where MPI looks for it
HOME_VOLUME: Final = "flux-operator-home"
CURVE_VOLUME: Final = "flux-curve"
MUNGE_VOLUME: Final = "flux-munge"
_SCRIPT_MODE: Final = 0o755
_CURVE_MODE: Final = 0o444
"""Readable for all: the image's user is not known, and no other user is in that container.

Flux reads a copy with mode 0600.
"""


@dataclass(slots=True)
class Volumes:
    """The volumes of one pod, and the mounts of its containers.

    Two volumes with one name but different sources are both kept, under different names.
    """

    volumes: list[dict[str, Any]] = field(default_factory=list)

    def add(self, volume: dict[str, Any]) -> str:
        """Adds the volume, unless an equal one is there. Returns its name in the pod."""
        name, number = volume["name"], 1
        for taken in self.volumes:
            if {**taken, "name": ""} == {**volume, "name": ""} and _base(taken["name"], name):
                return str(taken["name"])
        while any(taken["name"] == volume["name"] for taken in self.volumes):
            number += 1
            volume = {**volume, "name": f"{name}-{number}"}
        self.volumes.append(volume)
        return str(volume["name"])

    def mounts(self, container: Container) -> list[dict[str, Any]]:
        """Returns the mounts of the container's own volumes."""
        container_mounts = []
        for name, one in sorted(container.volumes.items()):
            mount = {"name": self.add({"name": name, **source(one)}), "mountPath": one.path or _SHARED_MEMORY}
            container_mounts.append(mount | ({"readOnly": True} if one.read_only else {}))
        return container_mounts


def _base(taken: str, name: str) -> bool:
    return taken == name or taken.rpartition("-")[0] == name


def source(volume: ContainerVolume) -> dict[str, Any]:
    """Returns the volume's source.

    If several sources are given, the first in upstream's order is used. Without any, it is an empty
    directory.
    """
    items = [{"key": key, "path": below} for key, below in sorted(volume.items.items())]
    chosen = {"items": items} if items else {}
    if volume.csi_driver:
        csi: dict[str, Any] = {"driver": volume.csi_driver, "readOnly": volume.read_only}
        if volume.csi_driver_attributes:
            csi["volumeAttributes"] = volume.csi_driver_attributes
        return {"csi": csi}
    if volume.secret_name:
        return {"secret": {"secretName": volume.secret_name, **chosen}}
    if volume.empty_dir:
        empty: dict[str, Any] = {}
        if (volume.empty_dir_medium or "").lower() == "memory":
            empty["medium"] = "Memory"
        if volume.empty_dir_size_limit:
            empty["sizeLimit"] = volume.empty_dir_size_limit
        return {"emptyDir": empty}
    if volume.host_path:
        return {"hostPath": {"path": volume.host_path, "type": "Directory"}}
    if volume.config_map_name:
        return {"configMap": {"name": volume.config_map_name, **chosen}}
    if not volume.claim_name:
        return {"emptyDir": {}}
    claim: dict[str, Any] = {"claimName": volume.claim_name}
    return {"persistentVolumeClaim": claim | ({"readOnly": True} if volume.read_only else {})}


def shared(cluster: Cluster, keys: Iterable[str]) -> list[dict[str, Any]]:
    """Returns the volumes of every pod of the Job; `keys` are the keys of the entrypoint ConfigMap."""
    flux = cluster.spec.flux
    pod_volumes: list[dict[str, Any]] = [
        {"name": flux.view_name, "emptyDir": {}},
        {
            "name": names.entrypoint(cluster.name),
            "configMap": {
                "name": names.entrypoint(cluster.name),
                "items": [{"key": key, "path": file_of(key), "mode": _SCRIPT_MODE} for key in keys],
            },
        },
        {"name": HOME_VOLUME, "emptyDir": {}},
        {
            "name": CURVE_VOLUME,
            "secret": {"secretName": names.curve(cluster.name), "defaultMode": _CURVE_MODE},
        },
    ]
    if flux.munge_secret:
        secret = {"secretName": flux.munge_secret, "defaultMode": _CURVE_MODE}
        pod_volumes.append({"name": MUNGE_VOLUME, "secret": secret})
    return pod_volumes


def file_of(key: str) -> str:
    """Returns the file name of a key of the entrypoint ConfigMap."""
    return key if "." in key or key == "hostlist" else f"{key}.sh"


def base_mounts(cluster: Cluster) -> list[dict[str, Any]]:
    """Returns the mounts of the init container and of every container that our script starts."""
    return [
        {"name": cluster.spec.flux.view_name, "mountPath": cluster.mount},
        {
            "name": names.entrypoint(cluster.name),
            "mountPath": names.ENTRYPOINT_PATH,
            "readOnly": True,
        },
        {"name": HOME_VOLUME, "mountPath": names.HOME_PATH},
    ]


def software_mount(cluster: Cluster) -> dict[str, Any]:
    """Returns the mount of the software, at the path that the view's links point to.

    The init container does not have it, because its image contains the software at this path.
    """
    return {
        "name": cluster.spec.flux.view_name,
        "mountPath": names.SOFTWARE_PATH,
        "subPath": "software",
        "readOnly": True,
    }


def runner_mounts(cluster: Cluster) -> list[dict[str, Any]]:
    """Returns the mounts that only the container that runs Flux has."""
    mounts = [{"name": CURVE_VOLUME, "mountPath": names.CURVE_PATH, "readOnly": True}]
    if cluster.spec.flux.munge_secret:
        mounts.append({"name": MUNGE_VOLUME, "mountPath": names.MUNGE_PATH, "readOnly": True})
    return mounts


# --- containers ----------------------------------------------------------------------------------------

_POD_LEVEL: Final = frozenset({"cpu", "memory"})

_FOR_EVER: Final = 2**31 - 1
"""The startup probe has no effective limit.

A broker may wait for the others until `deadlineSeconds` ends the Job.
"""


def pod_level(resource: str) -> bool:
    """True if Kubernetes accepts the resource at pod level."""
    return resource in _POD_LEVEL or resource.startswith("hugepages-")


def _pull_policy(container: Container) -> str:
    return "Always" if container.pull_always else container.image_pull_policy or "IfNotPresent"


def _common(container: Container) -> dict[str, Any]:
    """Returns the fields that every container has."""
    body: dict[str, Any] = {
        "image": container.image,
        "imagePullPolicy": _pull_policy(container),
        "stdin": True,
        "tty": True,
    }
    if container.working_dir:
        body["workingDir"] = container.working_dir
    variables: list[dict[str, Any]] = [
        {"name": name, "value": value} for name, value in container.environment.items()
    ]
    variables += [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": one.name, "key": one.key}}}
        for name, one in container.secrets.items()
    ]
    if variables:
        body["env"] = variables
    if container.ports:
        body["ports"] = [{"containerPort": port, "protocol": "TCP"} for port in container.ports]
    resources = container.resources.as_json()
    if resources:
        body["resources"] = resources
    if container.security_context:
        body["securityContext"] = container.security_context.as_json()
    return body


def _hooks(container: Container) -> dict[str, Any]:
    """Returns the user's lifecycle hooks, which are shell code."""
    hooks = {
        "postStart": container.life_cycle.post_start_exec,
        "preStop": container.life_cycle.pre_stop_exec,
    }
    return {name: {"exec": {"command": ["/bin/sh", "-c", code]}} for name, code in hooks.items() if code}


def _script(key: str) -> list[str]:
    return ["/bin/bash", f"{names.ENTRYPOINT_PATH}/{file_of(key)}"]


def flux_view(cluster: Cluster) -> dict[str, Any]:
    """Returns the init container. It copies the view and writes the files that the brokers read.

    Without a view it only needs a shell, so it runs the application's image, which is pulled anyway.
    """
    flux = cluster.spec.flux.container
    policy = "Always" if flux.pull_always else "IfNotPresent"
    image = flux.image or cluster.settings.view_image
    if flux.disable and not flux.image:
        image, policy = str(cluster.runner.image), _pull_policy(cluster.runner)
    body: dict[str, Any] = {
        "name": cluster.spec.flux.view_name,
        "image": image,
        "imagePullPolicy": policy,
        "command": _script(script.INIT),
        "stdin": True,
        "tty": True,
        "volumeMounts": base_mounts(cluster),
    }
    if flux.working_dir:
        body["workingDir"] = flux.working_dir
    resources = flux.resources.as_json()
    if resources:
        body["resources"] = resources
    if flux.security_context:
        body["securityContext"] = flux.security_context.as_json()
    return body


def runner(cluster: Cluster, pod: Volumes) -> dict[str, Any]:
    """Returns the container that runs Flux. It has the MiniCluster's name."""
    index, container = cluster.spec.runner_index, cluster.runner
    body = {"name": cluster.name, **_common(container)}
    body["command"] = _script(f"wait-{index}")
    body["volumeMounts"] = [
        *base_mounts(cluster),
        *_software(cluster),
        *runner_mounts(cluster),
        *pod.mounts(container),
    ]
    body["lifecycle"] = {
        **_hooks(container),
        "preStop": {"exec": {"command": _script(f"stop-{index}")}},
    }
    if not cluster.spec.flux.disable_socket:
        # Checked only until the broker has joined: from then on it counts until its container ends.
        body["startupProbe"] = {
            "exec": {"command": _script(f"ready-{index}")},
            "periodSeconds": cluster.patience,
            "timeoutSeconds": 10,
            "failureThreshold": _FOR_EVER,
        }
    extended = {
        name: amount for name, amount in quantities(cluster.spec.pod.resources).items() if not pod_level(name)
    }
    if extended:
        resources = body.get("resources", {})
        body["resources"] = {
            **resources,
            **{part: {**extended, **resources.get(part, {})} for part in ("requests", "limits")},
        }
    return body


def sidecar(cluster: Cluster, index: int, pod: Volumes) -> dict[str, Any]:
    """Returns a container that runs beside Flux."""
    container = cluster.spec.containers[index]
    body = {"name": container.name, **_common(container)}
    if script.wrapped(container):
        body["command"] = _script(f"start-{index}")
    body["volumeMounts"] = [*base_mounts(cluster), *_software(cluster), *pod.mounts(container)]
    hooks = _hooks(container)
    return body | ({"lifecycle": hooks} if hooks else {})


def service(container: Container, pod: Volumes) -> dict[str, Any]:
    """Returns a container of the services pod.

    It runs its image's entrypoint, or its command in a shell if it has one.
    """
    body = {"name": container.name, **_common(container)}
    commands = container.commands
    main = commands.script or container.command
    if main:
        code = "\n".join(filter(None, (commands.init, commands.service_pre, main, commands.post)))
        body["command"] = ["/bin/sh", "-c", code]
    mounts = pod.mounts(container)
    if mounts:
        body["volumeMounts"] = mounts
    hooks = _hooks(container)
    return body | ({"lifecycle": hooks} if hooks else {})


def _software(cluster: Cluster) -> list[dict[str, Any]]:
    return [] if cluster.spec.flux.container.disable else [software_mount(cluster)]
