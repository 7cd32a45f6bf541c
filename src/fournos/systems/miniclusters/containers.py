"""The containers of the pods: the init container with Flux, the one that runs Flux, and the sidecars."""

from __future__ import annotations

from typing import Any, Final

from fournos.api.minicluster_container import Container
from fournos.api.minicluster_values import quantities
from fournos.systems.miniclusters import entrypoint, names, volumes
from fournos.systems.miniclusters.cluster import Cluster
from fournos.systems.miniclusters.volumes import Volumes

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
    return ["/bin/bash", f"{names.ENTRYPOINT_PATH}/{volumes.file_of(key)}"]


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
        "command": _script(entrypoint.INIT),
        "stdin": True,
        "tty": True,
        "volumeMounts": volumes.base_mounts(cluster),
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
        *volumes.base_mounts(cluster),
        *_software(cluster),
        *volumes.runner_mounts(cluster),
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
    if entrypoint.wrapped(container):
        body["command"] = _script(f"start-{index}")
    body["volumeMounts"] = [*volumes.base_mounts(cluster), *_software(cluster), *pod.mounts(container)]
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
    return [] if cluster.spec.flux.container.disable else [volumes.software_mount(cluster)]
