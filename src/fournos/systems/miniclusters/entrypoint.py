"""The entrypoint ConfigMap: all scripts and files that the pods find in /flux_operator."""

from __future__ import annotations

from typing import Any

from fournos.api.minicluster_container import Container
from fournos.engine.kube.resource import CONFIG_MAP
from fournos.systems.miniclusters import broker, launch, names, script
from fournos.systems.miniclusters.cluster import Cluster
from fournos.systems.miniclusters.shell import lines, unescaped

INIT = "flux-init"


def wrapped(container: Container) -> bool:
    """True if our script starts the sidecar. A sidecar without a command keeps its image's entrypoint."""
    return not container.no_wrap_entrypoint and bool(container.command or container.commands.script)


def data(cluster: Cluster) -> dict[str, str]:
    """Returns the content per key. Keys without a dot are scripts."""
    runner = cluster.spec.runner_index
    files = {
        INIT: script.init(cluster),
        f"wait-{runner}": script.runner(cluster),
        f"stop-{runner}": script.stop(cluster),
        f"ready-{runner}": script.ready(cluster),
        "broker.toml": broker.toml(cluster),
        "hostlist": broker.hostlist(cluster),
        names.QUORUM_KEY: quorum_text(cluster),
        "environment.sh": script.environment(cluster),
    }
    for index, container in enumerate(cluster.spec.containers):
        if index != runner and wrapped(container):
            files[f"start-{index}"] = script.sidecar(cluster, index)
        if container.commands.script and (index == runner or wrapped(container)):
            files[f"script-{index}"] = lines(unescaped(container.commands.script))
    if cluster.batch and not cluster.interactive:
        files[f"batch-{runner}"] = launch.batch_script(cluster)
    return files


def quorum_text(cluster: Cluster) -> str:
    """Returns the quorum as text; empty means all brokers."""
    return str(broker.quorum(cluster) or "")


def config_map(cluster: Cluster) -> dict[str, Any]:
    """Returns the entrypoint ConfigMap."""
    return {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.kind,
        "metadata": cluster.metadata(names.entrypoint(cluster.name)),
        "data": data(cluster),
    }
