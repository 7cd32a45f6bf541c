"""Builds the scripts of the entrypoint ConfigMap: a header, the user's code, and the parts in `scripts`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from fournos.api.minicluster_container import Container
from fournos.engine.kube.resource import CONFIG_MAP
from fournos.systems.miniclusters import broker, launch, names
from fournos.systems.miniclusters.spec import Cluster, lines, quote, unescaped

_SHEBANG = "#!/bin/bash\n"
_PACKAGE = "fournos.systems.miniclusters.scripts"
_OLDEST = 61
"""The minor number of the oldest Flux version that the scripts were tested with: 0.61."""
_STOPPED_BESIDE = 143
"""The exit code of a sidecar that was requested to stop, the same as after SIGTERM."""


@cache
def _part(name: str) -> str:
    return "\n" + files(_PACKAGE).joinpath(f"{name}.sh").read_text(encoding="utf-8")


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _assignments(values: Mapping[str, str]) -> str:
    return "".join(f"{name}={quote(value)}\n" for name, value in values.items())


def _array(name: str, values: list[str]) -> str:
    return f"{name}=(\n" + "".join(f"  {quote(value)}\n" for value in values) + ")\n"


def _user(title: str, code: str | None, *, quiet: bool = False) -> str:
    """Returns the user's code. With `quiet` its output is dropped, but not its errors."""
    if not code:
        return ""
    body = f"{{\n:\n{lines(code)}}} >/dev/null\n" if quiet else lines(code)
    return f"\n# {title}\n{body}"


def _hook(title: str, code: str | None, *, quiet: bool) -> str:
    """Returns the user's code with its name set while it runs, for the message if it ends the script."""
    text = _user(title, code, quiet=quiet)
    return f"\npart={title}{text}\npart=\n" if text else ""


def _paths(cluster: Cluster) -> dict[str, str]:
    logging = cluster.spec.logging
    return {
        "lead": cluster.lead,
        "mount": cluster.mount,
        "view": f"{cluster.mount}/view",
        "config": cluster.config,
        "socket": cluster.socket,
        "entrypoint": names.ENTRYPOINT_PATH,
        "quiet": _flag(logging.quiet),
    }


def _strict(cluster: Cluster) -> str:
    return "set -eEu -o pipefail\n" if cluster.spec.logging.strict else ""


def _view(cluster: Cluster) -> Iterator[str]:
    """Returns the code that finds Flux in the view; empty if the image contains Flux."""
    flux = cluster.spec.flux
    if flux.container.disable:
        return
    rc_extra = "" if flux.scheduler.simple else f"{cluster.mount}/view/etc/flux/rc1.d"
    yield "\n" + _assignments(
        {
            "python_path": flux.container.python_path or "",
            "rc_extra": rc_extra,
        }
    )
    yield _part("view")


def _user_switch(container: Container) -> Iterator[str]:
    """Sets asFlux, the prefix of all commands of Flux. It is empty unless a user is configured."""
    if container.commands.run_flux_as_root:
        yield "\n" + _assignments({"user": "root", "uid": "0"})
    elif container.user:
        yield "\n" + _assignments({"user": container.user.name, "uid": str(container.user.uid)})
    else:
        yield _part("user_image")
        return
    yield _part("user_given")


def runner(cluster: Cluster) -> str:
    """Returns the script of the container that runs Flux: wait-<index>.sh."""
    return "".join(_runner(cluster))


def _runner(cluster: Cluster) -> Iterator[str]:
    container, spec = cluster.runner, cluster.spec
    commands, quiet = container.commands, spec.logging.quiet
    yield _SHEBANG + f"# Starts Flux for MiniCluster {cluster.name}: the lead broker, or a worker.\n"
    yield _strict(cluster)
    yield _assignments(
        {
            **_paths(cluster),
            "curve": f"{names.CURVE_PATH}/{names.CURVE_KEY}",
            "cores": str(container.cores or 1),
            "fixed_cores": _flag(container.cores is not None),
            "logs": launch.logs(cluster),
            "timed": _flag(spec.logging.timed),
            "complete_workers": _flag(spec.flux.complete_workers),
            "disable_socket": _flag(spec.flux.disable_socket),
            "patience": str(cluster.patience),
            "retried": _flag(cluster.retried),
            "stays": _flag(cluster.retried and not cluster.bursted),
            "reserved": str(names.STOPPED),
            "stopped": "0" if spec.flux.complete_workers else str(names.STOPPED),
            "oldest": str(_OLDEST),
        }
    )
    yield _part("begin")
    yield _part("reserved")
    yield _part("release")
    yield _hook("commands.init", commands.init, quiet=quiet)
    if spec.logging.timed:
        yield _part("timed")
    yield from _view(cluster)
    yield from _user_switch(container)
    yield _hook("preCommand", container.pre_command, quiet=quiet)
    yield _part("user_known")
    yield _part("files")
    yield "\n" + _array("options", broker.options(cluster))
    yield _part("lead_marks")
    if spec.archive.path:
        yield "\n" + _assignments({"archive": spec.archive.path})
        yield _part("archive")
    yield _part("options")
    yield _hook("commands.pre", commands.pre, quiet=quiet)
    yield _part("banner")
    yield _part("run")
    yield f"\nafter() {{\n:\n{lines(commands.post or ':')}}}\n"
    yield from _roles(cluster)
    yield _part("end")


def _start(cluster: Cluster) -> str:
    wrap = cluster.spec.flux.wrap
    parts = ("flux start", f"--wrap={quote(wrap)}" if wrap else "", '"${handed[@]}"')
    return " ".join(filter(None, parts))


def _roles(cluster: Cluster) -> Iterator[str]:
    commands, program = cluster.runner.commands, launch.program(cluster)
    before = launch.prefix(cluster)
    yield '\nif [[ $HOSTNAME == "$lead" ]]; then\n'
    yield _part("lead_before").lstrip("\n")
    yield _hook("commands.brokerPre", commands.on_broker, quiet=cluster.spec.logging.quiet)
    yield "# shellcheck disable=SC2086 # a prefix of several words\n"
    if program:
        yield f'program=({program})\nsay "Command: ${{program[*]}}"\n'
        yield f'run $asFlux {_start(cluster)} "${{program[@]}}"\n'
    else:
        yield f'run $asFlux {before}flux broker "${{options[@]}}"\n'
    if cluster.spec.archive.path:
        yield "keep_archive\n"
    yield "else\n"
    yield _hook("commands.workerPre", commands.on_workers, quiet=cluster.spec.logging.quiet).lstrip("\n")
    yield "run_worker() {\n# shellcheck disable=SC2086 # a prefix of several words\n"
    yield f"run {launch.timed(cluster, 'fluxstart')}$asFlux {before}{_start(cluster)}\n}}\n"
    yield _part("worker")
    yield "fi\n"


def init(cluster: Cluster) -> str:
    """Returns the script of the init container."""
    view = "" if cluster.spec.flux.container.disable else _part("init_view")
    return (
        _SHEBANG
        + f"# Sets up the files of MiniCluster {cluster.name}.\nset -eu -o pipefail\n"
        + _assignments(_paths(cluster))
        + _part("init")
        + view
        + _part("init_done")
    )


def sidecar(cluster: Cluster, index: int) -> str:
    """Returns the script of a sidecar: start-<index>.sh."""
    container = cluster.spec.containers[index]
    commands, quiet = container.commands, cluster.spec.logging.quiet
    wait = not (cluster.spec.flux.no_wait_socket or cluster.spec.flux.disable_socket)
    command = launch.script_words(commands.script, index) if commands.script else container.command
    return "".join(
        (
            _SHEBANG,
            f"# Container {container.name} of MiniCluster {cluster.name}.\n",
            _assignments(
                {
                    **_paths(cluster),
                    "wait_socket": _flag(wait),
                    "stopped": str(_STOPPED_BESIDE),
                    "oldest": str(_OLDEST),
                }
            ),
            _part("begin"),
            _part("release"),
            _user("commands.init", commands.init, quiet=quiet),
            _strict(cluster),
            *_view(cluster),
            _user("commands.servicePre", commands.service_pre, quiet=quiet),
            _part("sidecar"),
            f"\nmain() {{\n:\n{lines(command or ':')}}}\n",
            _part("sidecar_run"),
            _user("commands.post", commands.post),
            '\nexit "$result"\n',
        )
    )


def stop(cluster: Cluster) -> str:
    """Returns the preStop script of the container that runs Flux: the user's hook, then a worker's drain."""
    hook = cluster.runner.life_cycle.pre_stop_exec
    values = {**_paths(cluster), "grace": str(cluster.settings.drain_grace_sec)}
    head = _SHEBANG + f"# Before a pod of MiniCluster {cluster.name} goes.\n" + _assignments(values)
    return head + _user("lifeCycle.preStopExec", f"(\n:\n{lines(hook)})" if hook else None) + _part("stop")


def ready(cluster: Cluster) -> str:
    """Returns the startup probe of the container that runs Flux."""
    head = f"# Has the broker of a pod of MiniCluster {cluster.name} joined?\n"
    return _SHEBANG + head + _assignments(_paths(cluster)) + _part("ready")


def environment(cluster: Cluster) -> str:
    """Returns the variables of flux.environment as a file to source."""
    found = [f"export {name}={quote(value)}\n" for name, value in cluster.spec.flux.environment.items()]
    return "# flux.environment\n" + "".join(found)


# --- the ConfigMap -------------------------------------------------------------------------------------
# The entrypoint ConfigMap: all scripts and files that the pods find in /flux_operator.

INIT = "flux-init"


def wrapped(container: Container) -> bool:
    """True if our script starts the sidecar. A sidecar without a command keeps its image's entrypoint."""
    return not container.no_wrap_entrypoint and bool(container.command or container.commands.script)


def data(cluster: Cluster) -> dict[str, str]:
    """Returns the content per key. Keys without a dot are scripts."""
    number = cluster.spec.runner_index
    files = {
        INIT: init(cluster),
        f"wait-{number}": runner(cluster),
        f"stop-{number}": stop(cluster),
        f"ready-{number}": ready(cluster),
        "broker.toml": broker.toml(cluster),
        "hostlist": broker.hostlist(cluster),
        names.QUORUM_KEY: quorum_text(cluster),
        "environment.sh": environment(cluster),
    }
    for index, container in enumerate(cluster.spec.containers):
        if index != number and wrapped(container):
            files[f"start-{index}"] = sidecar(cluster, index)
        if container.commands.script and (index == number or wrapped(container)):
            files[f"script-{index}"] = lines(unescaped(container.commands.script))
    if cluster.batch and not cluster.interactive:
        files[f"batch-{number}"] = launch.batch_script(cluster)
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
