"""The rendered entrypoint, run under bash: workers, users, times, files."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.systems.miniclusters.stage import QUIET, Sandbox, ran
from tests.waiting import blocking_until

# --- workers -----------------------------------------------------------------------------------------


def test_a_worker_starts_its_broker_again_until_it_ends_well(stage: Sandbox) -> None:
    (stage.root / "codes").write_text("1\n1\n0\n")
    found = ran(stage, size=2, index=1)
    assert found.code == 0
    assert [call[0] for call in found.calls].count("start") == 3
    assert found.out.endswith("The follower worker exited cleanly. Goodbye!\n")
    assert not (stage.mount / "flux-operator-result").exists()


def test_a_worker_reports_when_its_broker_ended_not_its_container(stage: Sandbox) -> None:
    before = int(time.time())
    assert ran(stage, {"commands": {"post": 'date +%s >"$STAGE/after"; sleep 2'}}, size=2, index=1).code == 0
    output, after = int((stage.root / "termination").read_text()), int((stage.root / "after").read_text())
    assert before <= output <= after < time.time() - 1


def test_a_failing_post_of_a_worker_fails_nothing(stage: Sandbox) -> None:
    """It looks for what is on the lead broker alone; a failed worker would fail the Job."""
    for post in ("false", "exit 9", "cat /nothing"):
        assert ran(stage, {"commands": {"post": post}}, size=2, index=1).code == 0


def test_with_complete_workers_one_end_is_the_end(stage: Sandbox) -> None:
    (stage.root / "codes").write_text("1\n")
    found = ran(stage, size=2, index=1, flux={"completeWorkers": True})
    assert found.code == 0
    assert [call[0] for call in found.calls].count("start") == 1


def test_hooks_of_each_role(stage: Sandbox) -> None:
    hooks = {
        "init": "echo init",
        "pre": "echo pre",
        "preWorker": "echo worker",
        "preBroker": "echo broker",
        "post": "echo post",
    }
    container = {"commands": hooks, "preCommand": 'echo "pre-command [$asFlux]"'}
    lead = ran(stage, container, size=2)
    assert lead.out.split("\n") == ["init", "pre-command []", "pre", "broker", "hello world", "post", ""]
    worker = stage.run(index=1)
    assert worker.out.split("\n")[:4] == ["init", "pre-command []", "pre", "worker"]


def test_quiet_mutes_what_hooks_print_and_keeps_what_they_set(stage: Sandbox) -> None:
    hooks = {"init": "echo noise; export WHO=me", "pre": "echo more noise", "post": "echo bye"}
    found = ran(stage, {"command": "sh -c 'echo $WHO'", "commands": hooks}, logging=QUIET)
    assert found.out == "me\nbye\n"


# --- users -------------------------------------------------------------------------------------------


_SUDO = r"""#!/bin/bash
# As the real one: a PATH of its own, which the command's environment does not change.
printf '%s\n' "$*" >>"$STAGE/sudo"
while [[ $1 == -* || $1 == *=* || $1 == flux-u ]]; do shift; done
[[ -x /usr/bin/$1 || -x /bin/$1 ]] || { echo "sudo: $1: command not found" >&2; exit 1; }
exec "$@"
"""


def _identity(stage: Sandbox, *, me: int, users: str) -> None:
    """Returns an `id` command with these users."""
    stage.executable(
        "id",
        "#!/bin/bash\n"
        f"[[ $# -eq 1 ]] && exec echo {me}\n"
        f'case "$2" in {users}) echo 1002 ;; root) echo 0 ;; *) exit 1 ;; esac\n',
    )


def test_the_user_is_the_images_unless_one_is_asked_for(stage: Sandbox) -> None:
    stage.executable("sudo", _SUDO)
    ran(stage)
    assert not (stage.root / "sudo").exists()


@pytest.mark.parametrize("spelling", ["fluxUser", "fluxuser"])
def test_every_flux_call_is_made_as_the_user_that_was_asked_for(stage: Sandbox, spelling: str) -> None:
    stage.executable("sudo", _SUDO)
    stage.executable("chown", "#!/bin/bash\n")
    _identity(stage, me=0, users="flux-u")
    found = ran(stage, {spelling: {"uid": 1002, "name": "flux-u"}})
    assert found.code == 0, found.err
    calls = (stage.root / "sudo").read_text().splitlines()
    assert all(call.startswith("-u flux-u -E PYTHONPATH=") for call in calls)
    flux = [call.split(" flux ")[1].split()[0] for call in calls if " flux " in call]
    assert flux == ["version", "R", "start"]


def test_the_user_of_the_pre_command_is_found_out_and_owns_what_flux_writes(stage: Sandbox) -> None:
    """The example of the documentation page, without fluxUser."""
    stage.executable("sudo", _SUDO.replace("exec", "USER_NOW=1002 exec"))
    stage.executable("id", '#!/bin/bash\n[[ $1 == -u ]] && exec echo "${USER_NOW:-0}"\n')
    stage.executable("env", '#!/bin/bash\nwhile [[ $1 == *=* ]]; do export "$1"; shift; done\nexec "$@"\n')
    stage.executable("chown", '#!/bin/bash\necho "$@" >>"$STAGE/chown"\n')
    example = 'asFlux="sudo -u flux-u -E PYTHONPATH=$PYTHONPATH -E PATH=$PATH"'
    found = ran(stage, {"preCommand": example})
    assert found.code == 0, found.err
    config = stage.mount / "config"
    owned = f"-R 1002 {config}/curve {config}/run {config}/var {stage.root}/out"
    assert (stage.root / "chown").read_text().strip() == owned
    assert len((stage.root / "sudo").read_text().splitlines()) == 4


def test_who_runs_flux_but_root_is_made_if_missing(stage: Sandbox) -> None:
    stage.executable("sudo", _SUDO)
    stage.executable("chown", "#!/bin/bash\n")
    stage.executable("useradd", '#!/bin/bash\necho "$@" >"$STAGE/added"\n')
    stage.executable(
        "id",
        "#!/bin/bash\n[[ $# -eq 1 ]] && exec echo 0\n[[ -f $STAGE/added ]] || exit 1\necho 1002\n",
    )
    found = ran(stage, {"fluxUser": {"uid": 1002, "name": "flux-u"}})
    assert found.code == 0, found.err
    assert (stage.root / "added").read_text() == "--uid 1002 --create-home flux-u\n"


def test_flux_as_root_where_the_image_s_user_is_another(stage: Sandbox) -> None:
    stage.executable("sudo", _SUDO.replace("flux-u", "root"))
    stage.executable("chown", "#!/bin/bash\n")
    _identity(stage, me=1000, users="nobody")
    found = ran(stage, {"commands": {"runFluxAsRoot": True}})
    assert found.code == 0, found.err
    assert all(call.startswith("-u root -E ") for call in (stage.root / "sudo").read_text().splitlines())
    assert "start" in [call[0] for call in found.calls]


@pytest.mark.parametrize(
    ("release", "fits"), [("0.60.0", False), ("0.49.1-2-gabc", False), ("0.61.0", True), ("1.0.0", True)]
)
def test_a_flux_that_is_too_old_is_found_out(stage: Sandbox, release: str, fits: bool) -> None:
    stage.put()
    found = stage.run(FLUX_VERSION=release)
    assert (found.code == 0) is fits
    expected = f"Flux {release} is too old: use an image with version 0.61 or a newer one"
    assert (expected in found.err) is not fits
    assert ((stage.root / "termination").read_text() == expected) is not fits


def test_an_image_without_flux_is_found_out(stage: Sandbox) -> None:
    (stage.root / "bin" / "flux").unlink()
    found = ran(stage)
    assert found.code == 127 and "the image has no flux on its PATH: add it" in found.err


def test_as_flux_may_be_replaced_by_the_pre_command(stage: Sandbox) -> None:
    found = ran(stage, {"preCommand": 'asFlux="env FI_EFA=1"', "command": "sh -c 'echo $FI_EFA'"})
    assert found.out == "1\n"


def test_a_missing_sudo_is_reported(stage: Sandbox) -> None:
    _identity(stage, me=0, users="flux-u")
    stage.put({"fluxUser": {"name": "flux-u"}})
    found = stage.run(PATH=f"{stage.root}/bin:{_without_sudo(stage)}")
    assert found.code == 127
    assert "Flux is to run as flux-u, and the image has no sudo: add it" in found.err


def _without_sudo(stage: Sandbox) -> str:
    """The programs of this machine but for sudo."""
    folder = stage.root / "programs"
    folder.mkdir()
    for source in (Path("/bin"), Path("/usr/bin")):
        for program in source.iterdir():
            if program.name != "sudo" and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    return str(folder)


@pytest.mark.parametrize(
    "container", [{"commands": {"runFluxAsRoot": True}}, {"fluxUser": {"name": "flux-u"}}]
)
def test_in_a_pod_that_is_not_root_the_user_of_flux_makes_its_files(
    stage: Sandbox, container: dict[str, Any]
) -> None:
    """Only root may give files away."""
    user = "root" if "commands" in container else "flux-u"
    stage.executable("sudo", _SUDO.replace("flux-u", user))
    stage.executable("chown", '#!/bin/bash\necho "chown: Operation not permitted" >&2\nexit 1\n')
    _identity(stage, me=1000, users="flux-u")
    found = ran(stage, container)
    assert found.code == 0, found.err
    calls = (stage.root / "sudo").read_text()
    assert f"install -m 0600 {stage.root}/curve/curve.cert" in calls and "mkdir -p" in calls


def test_a_user_that_cannot_make_its_files_is_named(stage: Sandbox) -> None:
    stage.executable("sudo", _SUDO)
    stage.executable("install", "#!/bin/bash\nexit 1\n")
    _identity(stage, me=1000, users="flux-u")
    found = ran(stage, {"fluxUser": {"name": "flux-u"}})
    assert found.code == 127
    assert "run the pod as root, or leave fluxUser and runFluxAsRoot out" in found.err


@pytest.mark.parametrize(("release", "first"), [("0.49.0", "view"), ("0.61.0", "bin")])
def test_an_image_s_own_flux_that_is_too_old_gives_way_to_the_view_s(
    stage: Sandbox, release: str, first: str
) -> None:
    stage.put(flux={"container": {"mountPath": str(stage.mount)}})
    folder = stage.mount / "view" / "bin"
    folder.mkdir(parents=True)
    (stage.mount / "view" / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    own = (stage.root / "bin" / "flux").read_text()
    (folder / "flux").write_text(own.replace("${FLUX_VERSION:-0.61.0}", "0.88.0"))
    (folder / "flux").chmod(0o755)
    found = stage.run(FLUX_VERSION=release, PYTHONPATH="/old")
    assert found.code == 0, found.err
    assert f"Flux {'0.88.0' if first == 'view' else release} on " in found.banner[0]
    packages = f"{stage.mount}/view/lib/python3.11/site-packages"
    paths = f"{packages}:/old" if first == "view" else f"/old:{packages}"
    assert f"export PYTHONPATH={paths}\n" in (stage.mount / "flux-view.sh").read_text()


# --- timing ------------------------------------------------------------------------------------------


_TIME = '#!/bin/bash\nformat=$2\nshift 2\n"$@"\ncode=$?\necho "${format/\\%E/0:04.73}" >&2\nexit $code\n'


def test_times_are_those_of_the_page(stage: Sandbox) -> None:
    stage.executable("time", _TIME)
    stage.put(size=2, logging={"timed": True, "quiet": True})
    script = stage.root / "entrypoint" / "wait-0.sh"
    script.write_text(script.read_text().replace("/usr/bin/time", f"{stage.root}/bin/time"))
    lead = stage.run()
    assert lead.out + lead.err == "hello world\nFLUXTIME fluxsubmit wall time 0:04.73\n"
    worker = stage.run(index=1)
    assert worker.out + worker.err == "FLUXTIME fluxstart wall time 0:04.73\n"


def test_a_missing_time_is_reported(stage: Sandbox) -> None:
    stage.put(logging={"timed": True})
    script = stage.root / "entrypoint" / "wait-0.sh"
    script.write_text(script.read_text().replace("/usr/bin/time", "/nowhere/time"))
    found = stage.run()
    assert found.code == 127
    assert "logging.timed needs /nowhere/time" in found.err


# --- files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cores", "expected"), [(1, "--cores=0"), (2, "--cores=0-1"), (64, "--cores=0-63")])
def test_the_cores_are_a_set_of_numbers(stage: Sandbox, cores: int, expected: str) -> None:
    """Flux refuses 0-0."""
    assert ran(stage, {"cores": cores}).call("R")[-1] == expected


def test_what_the_broker_and_people_find(stage: Sandbox) -> None:
    found = ran(stage, {"cores": 4}, size=3, flux={"environment": {"A": "b c"}})
    config = stage.mount / "config"
    certificate = config / "curve" / "curve.cert"
    assert certificate.read_text() == "a certificate"
    assert certificate.stat().st_mode & 0o777 == 0o600
    assert found.call("R") == ["R", "encode", "--hosts=flux-sample-[0-2]", "--cores=0-3"]
    view = (stage.mount / "flux-view.sh").read_text()
    assert f"export fluxsocket=local://{config}/run/flux/local" in view
    assert "export A='b c'" in view
    assert (stage.mount / "flux-connect.sh").stat().st_mode & 0o111
    assert "certificate" not in found.out + found.err


def test_default_cores_are_a_variable_and_nothing_else(stage: Sandbox) -> None:
    """The page: 1 by default; Flux detects the available cores."""
    found = ran(stage, {"commands": {"pre": "echo $cores"}})
    assert (found.out, found.call("R")[-1]) == ("1\nhello world\n", "--local")


def test_the_view_is_set_up_for_all(stage: Sandbox) -> None:
    stage.put(flux={"container": {"mountPath": str(stage.mount)}})
    script = stage.root / "entrypoint" / "flux-init.sh"
    views = stage.root / "opt" / "views" / "._view" / "abc"
    (views / "bin").mkdir(parents=True)
    (views / "bin" / "flux").write_text("flux")
    script.write_text(script.read_text().replace("/opt/", f"{stage.root}/opt/"))
    for _ in range(2):  # a sandbox may start again
        assert stage.run("flux-init").code == 0
    assert (stage.mount / "view" / "bin" / "flux").read_text() == "flux"
    assert (stage.mount / "config/etc/flux/system/hostlist").read_text() == "flux-sample-[0]"
    for name in ("curve/curve.cert", "etc/flux/system/R", "var/lib/flux", "run/flux/local"):
        assert str((stage.mount / "view" / name).resolve()) == f"{stage.mount}/config/{name}", (
            "upstream's path"
        )
    toml = (stage.mount / "config/etc/flux/config/broker.toml").read_text()
    assert toml == (stage.root / "entrypoint" / "broker.toml").read_text()
    assert (stage.mount / "flux-operator-done.txt").exists()


def test_a_sidecar_waits_for_the_socket_and_runs_shell_code(stage: Sandbox) -> None:
    sidecar = {
        "name": "side",
        "command": 'echo "$fluxsocket" && echo done',
        "commands": {"servicePre": "echo pre"},
    }
    containers = [{"command": "true", "runFlux": True}, sidecar]
    stage.put(containers=containers, flux={"noWaitSocket": True})
    found = stage.run("start-1")
    uri = f"local://{stage.mount}/config/run/flux/local"
    assert (found.code, found.out) == (0, f"pre\n{uri}\ndone\n")


def test_a_sidecar_s_script_is_run_by_the_interpreter_that_it_names(stage: Sandbox) -> None:
    script = "#!/usr/bin/env python3\nprint('hello', 1 + 1)\n"
    side = {"name": "side", "commands": {"script": script}}
    stage.put(containers=[{"command": "true", "runFlux": True}, side], flux={"noWaitSocket": True})
    found = stage.run("start-1")
    assert (found.code, found.out) == (0, "hello 2\n")


def test_a_sidecar_waits_for_the_socket(stage: Sandbox) -> None:
    containers = [{"command": "true", "runFlux": True}, {"name": "side", "command": "echo done"}]
    stage.put(containers=containers)
    stage.executable("sleep", '#!/bin/bash\ntouch "$STAGE/waits"\nexec /bin/sleep 0.05\n')
    process = stage.start("start-1")
    blocking_until((stage.root / "waits").exists, pause=0.05)
    assert process.poll() is None
    where = stage.mount / "config" / "run" / "flux"
    where.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(where / "local"))
        assert stage.finish(process).out == "done\n"


def test_a_sidecar_is_stopped_with_all_that_it_started(stage: Sandbox) -> None:
    command = 'echo up; touch "$STAGE/up"; sleep 60; echo not here'
    containers = [{"command": "true", "runFlux": True}, {"name": "side", "command": command}]
    stage.put(containers=containers, flux={"noWaitSocket": True})
    process = stage.start("start-1")
    blocking_until((stage.root / "up").exists, pause=0.05)
    found = stage.terminate(process)
    assert (found.code, found.out) == (143, "up\n")


def test_a_sidecar_ends_with_its_own_code(stage: Sandbox) -> None:
    side = {"name": "side", "command": "exit 5", "commands": {"post": "echo bye"}}
    stage.put(containers=[{"command": "true", "runFlux": True}, side], flux={"noWaitSocket": True})
    found = stage.run("start-1")
    assert (found.code, found.out) == (5, "bye\n")
