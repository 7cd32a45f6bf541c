"""The volumes that every pod has, and the volumes of the containers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from fournos.api.minicluster_container import Container, ContainerVolume
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.cluster import Cluster

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
