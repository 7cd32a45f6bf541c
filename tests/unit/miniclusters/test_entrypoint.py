"""The rendered entrypoint, run under bash: modes, exit codes, hooks, users."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.miniclusters.stage import Ran, Stage

QUIET = {"quiet": True}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "stage")


def ran(stage: Stage, container: dict[str, Any] | None = None, *, index: int = 0, **spec: Any) -> Ran:
    stage.put(container, **spec)
    return stage.run(index=index)


def after(call: list[str], word: str) -> list[str]:
    return call[call.index(word) :]


# --- what the lead broker runs ----------------------------------------------------------------------------


def test_quiet_output_is_that_of_the_command_alone(stage: Stage) -> None:
    found = ran(stage, size=4, tasks=4, logging=QUIET)
    assert (found.code, found.out, found.err) == (0, "hello world\n" * 4, "")


@pytest.mark.parametrize(
    ("size", "tasks", "flags"),
    [
        (4, None, ["-n", "1"]),
        (4, 0, ["-N", "4"]),
        (4, 2, ["-n", "2"]),
        (4, 4, ["-N", "4", "-n", "4"]),
        (4, 8, ["-N", "4", "-n", "8"]),
        (1, None, ["-N", "1", "-n", "1"]),
    ],
)
def test_nodes_and_tasks(stage: Stage, size: int, tasks: int | None, flags: list[str]) -> None:
    found = ran(stage, size=size, **({} if tasks is None else {"tasks": tasks}))
    submitted = found.call("submit")
    assert submitted == ["submit", *flags, "--quiet", "--watch", "echo", "hello", "world"]


def test_the_broker_is_started_with_its_options(stage: Stage) -> None:
    found = ran(
        stage,
        size=2,
        maxSize=4,
        logging={"zeromq": True},
        archive={"path": str(stage.root / "state" / "archive.tar.gz")},
        flux={"wrap": "strace,-e,network,-tt", "topology": "kary:1", "connextTimeout": "", "logLevel": 7},
    )
    config = stage.mount / "config"
    assert found.call("start")[1:] == [
        "--wrap=strace,-e,network,-tt",
        f"--config-path={config}/etc/flux/config",
        f"-Scron.directory={config}/etc/flux/system/cron.d",
        "-Stbon.fanout=256",
        f"-Srundir={config}/run/flux",
        f"-Sstatedir={config}/var/lib/flux",
        f"-Slocal-uri=local://{config}/run/flux/local",
        "-Stbon.topo=kary:1",
        "-Sbroker.quorum=2",
        "-Stbon.zmqdebug=1",
        "-Slog-stderr-level=7",
        "-Slog-stderr-mode=local",
        f"-Scontent.dump={stage.root}/state/archive.tar.gz",
        "flux",
        "submit",
        "-n",
        "1",
        "--quiet",
        "--watch",
        "echo",
        "hello",
        "world",
    ]


def test_an_archive_that_exists_is_loaded(stage: Stage) -> None:
    path = stage.root / "archive.tar"
    path.write_text("state")
    start = ran(stage, archive={"path": str(path)}).call("start")
    assert {f"-Scontent.restore={path}", f"-Scontent.dump={path}"} <= set(start)
    assert not [word for word in ran_worker(stage).call("start") if "content" in word]


def ran_worker(stage: Stage) -> Ran:
    (stage.root / "calls").unlink()
    return stage.run(index=1)


def test_options_of_the_submission(stage: Stage) -> None:
    found = ran(
        stage,
        {"commands": {"prefix": "env FUSED=1"}},
        logging={"debug": True},
        flux={"submitCommand": "flux mini submit", "optionFlags": "-ompi=openmpi@5 -o 'a b'"},
    )
    assert after(found.call("start"), "env") == [
        *("env", "FUSED=1", "flux", "mini", "submit", "-N", "1", "-n", "1", "-ompi=openmpi@5", "-o", "a b"),
        *("-vvv", "--quiet", "--watch", "echo", "hello", "world"),
    ]


@pytest.mark.parametrize("where", ["container", "spec"])
def test_a_launcher_is_not_submitted(stage: Stage, where: str) -> None:
    command = {"command": "sh -c 'echo I launch; exit 4'"}
    if where == "container":
        found = ran(stage, {**command, "launcher": True})
    else:
        found = ran(stage, command, launcher=True)
    assert (found.code, found.out) == (4, "I launch\n")
    assert not [call for call in found.calls if call[0] == "submit"]


def test_a_command_keeps_its_quotes_and_sees_variables(stage: Stage) -> None:
    command = "printf '%s|' \"a b\" 'c $HOME' $WHO\n  && ; | > x * \\\n  done"
    found = ran(stage, {"command": command, "commands": {"init": "WHO=me"}, "workingDir": "/"})
    printed = found.out.split("|")
    assert printed[:3] == ["a b", "c $HOME", "me"]
    assert printed[3:5] == ["&&", ";"]
    assert found.call("submit")[-1] == "done"


def test_a_script_is_run_with_its_escapes_taken_out(stage: Stage) -> None:
    text = '#!/bin/bash\nNAME=world\necho "hello \\${NAME} \\`echo 1\\` \\\\n $NAME"'
    found = ran(stage, {"command": None, "commands": {"script": text}}, logging=QUIET)
    assert found.out == "hello world 1 \\n world\n"
    assert found.call("submit")[-2:] == ["/bin/bash", f"{stage.root}/entrypoint/script-0.sh"]


def test_a_batch_is_numbered_by_line(stage: Stage) -> None:
    stage.put({"command": "echo one\n\necho 'two words'\n", "batch": True}, size=2)
    text = (stage.root / "entrypoint" / "batch-0.sh").read_text()
    out = f"{stage.root}/out"
    assert text == (
        "#!/bin/bash\n"
        f"flux submit --flags waitable --error={out}/job-0.err --output={out}/job-0.out echo one\n"
        f"flux submit --flags waitable --error={out}/job-2.err --output={out}/job-2.out echo 'two words'\n"
        "flux queue idle\nflux jobs -a\nflux job wait --all\n"
    )
    found = stage.run()
    assert found.code == 0
    assert found.call("batch") == [
        *("batch", "-n", "1", "--flags", "waitable", f"{stage.root}/entrypoint/batch-0.sh")
    ]
    assert found.calls[-1] == ["job", "wait", "--all"]
    assert (stage.root / "out").is_dir()


def test_a_raw_batch_is_left_as_it_is(stage: Stage) -> None:
    stage.put(
        {"command": "flux filemap map -C /data mpi.sif\nflux queue idle", "batch": True, "batchRaw": True}
    )
    text = (stage.root / "entrypoint" / "batch-0.sh").read_text()
    assert text == "#!/bin/bash\nflux filemap map -C /data mpi.sif\nflux queue idle\n"


@pytest.mark.parametrize(
    ("container", "spec"),
    [({"command": None}, {}), ({}, {"interactive": True})],
    ids=["no command", "asked for"],
)
def test_an_interactive_broker_has_no_program(
    stage: Stage, container: dict[str, Any], spec: dict[str, Any]
) -> None:
    found = ran(stage, container, **spec)
    broker = found.call("broker")
    assert broker[-1] == "-Sbroker.rc2_none"
    assert not [call for call in found.calls if call[0] in ("start", "submit")]


def test_diagnostics_take_the_place_of_the_command(stage: Stage) -> None:
    stage.executable("sleep", "#!/bin/bash\necho asleep $1\n")
    found = ran(stage, {"diagnostics": True})
    assert [call[0] for call in found.calls if call[0] not in ("R", "start")] == [
        "overlay",
        "lsattr",
        "dmesg",
    ]
    assert found.out == "asleep infinity\n"


# --- results ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("code", [0, 3, 255])
def test_the_result_is_the_commands_and_post_runs_all_the_same(stage: Stage, strict: bool, code: int) -> None:
    container = {"command": f"sh -c 'exit {code}'", "commands": {"post": "echo hello post"}}
    found = ran(stage, container, logging={"strict": strict, "quiet": True})
    assert (found.code, found.out) == (code, "hello post\n")
    assert (stage.root / "termination").read_text() == str(code)
    assert (stage.mount / "flux-operator-complete.txt").exists()


def test_a_failing_post_counts_only_after_a_good_command(stage: Stage) -> None:
    for strict, code in ((True, 9), (False, 0)):
        found = ran(stage, {"commands": {"post": "exit 9"}}, logging={"strict": strict})
        assert found.code == code
        assert (stage.root / "termination").read_text() == str(code), "one result, wherever one looks"
        (stage.mount / "flux-operator-result").unlink()
    assert ran(stage, {"command": "sh -c 'exit 3'", "commands": {"post": "false"}}).code == 3


def test_post_ends_at_its_first_error_if_strict(stage: Stage) -> None:
    post = {"post": "echo one\nfalse\necho two"}
    assert ran(stage, {"commands": post}, logging={"strict": True, "quiet": True}).out == "hello world\none\n"
    (stage.mount / "flux-operator-result").unlink()
    assert ran(stage, {"commands": post}, logging={"strict": False, "quiet": True}).out.endswith("two\n")


@pytest.mark.parametrize("code", [137, 143])
def test_a_command_that_was_killed_is_a_result_too(stage: Stage, code: int) -> None:
    """The Job must not take it for a pod that was killed."""
    found = ran(stage, {"command": f"sh -c 'exit {code}'"})
    assert found.code == 1
    assert (stage.root / "termination").read_text() == str(code)


def test_a_lead_that_starts_again_does_not_run_the_command_again(stage: Stage) -> None:
    found = ran(stage, {"command": "sh -c 'exit 3'"})
    (stage.root / "termination").unlink()
    again = stage.run()
    assert again.code == 3
    assert [call[0] for call in again.calls].count("start") == 1
    assert (stage.root / "termination").read_text() == "3"
    assert found.calls == again.calls[: len(found.calls)]


def test_with_retries_asked_for_it_does(stage: Stage) -> None:
    ran(stage, {"command": "sh -c 'exit 3'"}, backoffLimit=2)
    assert [call[0] for call in stage.run().calls].count("start") == 2


def test_strict_ends_at_an_error_before_the_command(stage: Stage) -> None:
    pre = {"commands": {"pre": "false"}}
    assert ran(stage, pre, logging={"strict": True}).code == 1
    assert not [call for call in ran(stage, pre).calls if call[0] == "start"]
    assert ran(stage, pre, logging={"strict": False}).out == "hello world\n"


# --- workers ----------------------------------------------------------------------------------------------


def test_a_worker_starts_its_broker_again_until_it_ends_well(stage: Stage) -> None:
    (stage.root / "codes").write_text("1\n1\n0\n")
    found = ran(stage, size=2, index=1)
    assert found.code == 0
    assert [call[0] for call in found.calls].count("start") == 3
    assert found.out.endswith("The follower worker exited cleanly. Goodbye!\n")
    assert not (stage.root / "termination").exists()


def test_a_failing_post_of_a_worker_fails_nothing(stage: Stage) -> None:
    """It looks for what is on the lead broker alone; a failed worker would fail the Job."""
    for post in ("false", "exit 9", "cat /nothing"):
        assert ran(stage, {"commands": {"post": post}}, size=2, index=1).code == 0


def test_with_complete_workers_one_end_is_the_end(stage: Stage) -> None:
    (stage.root / "codes").write_text("1\n")
    found = ran(stage, size=2, index=1, flux={"completeWorkers": True})
    assert found.code == 0
    assert [call[0] for call in found.calls].count("start") == 1


@pytest.mark.parametrize("index", [0, 1])
def test_a_signal_reaches_the_broker(stage: Stage, index: int) -> None:
    stage.put({"command": "sleep 60", "launcher": True, "commands": {"post": "echo post"}}, size=2)
    process = stage.start(index=index, SLEEP="60")
    calls = stage.root / "calls"
    _until(lambda: calls.exists() and "start" in calls.read_text())
    begin = time.monotonic()
    found = stage.terminate(process)
    assert time.monotonic() - begin < 10
    assert found.code == 143
    assert found.out.endswith("post\n")
    assert not (stage.root / "termination").exists(), "being stopped is no result"


def _until(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_hooks_of_each_role(stage: Stage) -> None:
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


def test_quiet_mutes_what_hooks_print_and_keeps_what_they_set(stage: Stage) -> None:
    hooks = {"init": "echo noise; export WHO=me", "pre": "echo more noise", "post": "echo bye"}
    found = ran(stage, {"command": "sh -c 'echo $WHO'", "commands": hooks}, logging=QUIET)
    assert found.out == "me\nbye\n"


# --- users ------------------------------------------------------------------------------------------------

_SUDO = r"""#!/bin/bash
printf '%s\n' "$*" >>"$STAGE/sudo"
while [[ $1 == -* || $1 == *=* || $1 == flux-u ]]; do shift; done
exec "$@"
"""


def _identity(stage: Stage, *, me: int, users: str) -> None:
    """An `id` that knows these users."""
    stage.executable(
        "id",
        "#!/bin/bash\n"
        f"[[ $# -eq 1 ]] && exec echo {me}\n"
        f'case "$2" in {users}) echo 1002 ;; root) echo 0 ;; *) exit 1 ;; esac\n',
    )


def test_the_user_is_the_images_unless_one_is_asked_for(stage: Stage) -> None:
    stage.executable("sudo", _SUDO)
    ran(stage)
    assert not (stage.root / "sudo").exists()


@pytest.mark.parametrize("spelling", ["fluxUser", "fluxuser"])
def test_every_flux_call_is_made_as_the_user_that_was_asked_for(stage: Stage, spelling: str) -> None:
    stage.executable("sudo", _SUDO)
    stage.executable("chown", "#!/bin/bash\n")
    _identity(stage, me=0, users="flux-u")
    found = ran(stage, {spelling: {"uid": 1002, "name": "flux-u"}})
    assert found.code == 0, found.err
    calls = (stage.root / "sudo").read_text().splitlines()
    assert all(call.startswith("-u flux-u -E PYTHONPATH=") for call in calls)
    assert [call.split("flux ")[1].split()[0] for call in calls] == ["R", "start"]


def test_as_flux_may_be_replaced_by_the_pre_command(stage: Stage) -> None:
    found = ran(stage, {"preCommand": 'asFlux="env FI_EFA=1"', "command": "sh -c 'echo $FI_EFA'"})
    assert found.out == "1\n"


def test_a_missing_sudo_is_said(stage: Stage) -> None:
    _identity(stage, me=0, users="flux-u")
    stage.put({"fluxUser": {"name": "flux-u"}})
    found = stage.run(PATH=f"{stage.root}/bin:{_without_sudo(stage)}")
    assert found.code == 127
    assert "Flux is to run as flux-u, and the image has no sudo: add it" in found.err


def _without_sudo(stage: Stage) -> str:
    """The programs of this machine but for sudo."""
    folder = stage.root / "programs"
    folder.mkdir()
    for source in (Path("/bin"), Path("/usr/bin")):
        for program in source.iterdir():
            if program.name != "sudo" and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    return str(folder)


# --- timing -----------------------------------------------------------------------------------------------

_TIME = '#!/bin/bash\nformat=$2\nshift 2\n"$@"\ncode=$?\necho "${format/\\%E/0:04.73}" >&2\nexit $code\n'


def test_times_are_those_of_the_page(stage: Stage) -> None:
    stage.executable("time", _TIME)
    stage.put(size=2, logging={"timed": True, "quiet": True})
    script = stage.root / "entrypoint" / "wait-0.sh"
    script.write_text(script.read_text().replace("/usr/bin/time", f"{stage.root}/bin/time"))
    lead = stage.run()
    assert lead.out + lead.err == "hello world\nFLUXTIME fluxsubmit wall time 0:04.73\n"
    worker = stage.run(index=1)
    assert worker.out + worker.err == "FLUXTIME fluxstart wall time 0:04.73\n"


def test_a_missing_time_is_said(stage: Stage) -> None:
    stage.put(logging={"timed": True})
    script = stage.root / "entrypoint" / "wait-0.sh"
    script.write_text(script.read_text().replace("/usr/bin/time", "/nowhere/time"))
    found = stage.run()
    assert found.code == 127
    assert "logging.timed needs /nowhere/time" in found.err


# --- files ------------------------------------------------------------------------------------------------


def test_what_the_broker_and_people_find(stage: Stage) -> None:
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


def test_the_view_is_set_up_for_all(stage: Stage) -> None:
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
    toml = (stage.mount / "config/etc/flux/config/broker.toml").read_text()
    assert toml == (stage.root / "entrypoint" / "broker.toml").read_text()
    assert (stage.mount / "flux-operator-done.txt").exists()


def test_a_sidecar_waits_for_the_socket_and_runs_shell_code(stage: Stage) -> None:
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


def test_a_sidecar_is_stopped_with_all_that_it_started(stage: Stage) -> None:
    command = 'echo up; touch "$STAGE/up"; sleep 60; echo not here'
    containers = [{"command": "true", "runFlux": True}, {"name": "side", "command": command}]
    stage.put(containers=containers, flux={"noWaitSocket": True})
    process = stage.start("start-1")
    _until((stage.root / "up").exists)
    found = stage.terminate(process)
    assert (found.code, found.out) == (143, "up\n")


def test_a_sidecar_ends_with_its_own_code(stage: Stage) -> None:
    side = {"name": "side", "command": "exit 5", "commands": {"post": "echo bye"}}
    stage.put(containers=[{"command": "true", "runFlux": True}, side], flux={"noWaitSocket": True})
    found = stage.run("start-1")
    assert (found.code, found.out) == (5, "bye\n")


# --- a worker that is taken away --------------------------------------------------------------------------

_DRAIN = r"""#!/bin/bash
printf '%s\n' "$*" >>"$STAGE/drained"
case "$1 $2" in
"getattr rank") echo 3 ;;
"jobs -A") head -1 "$STAGE/ranks"; sed -i 1d "$STAGE/ranks" ;;
esac
"""


@pytest.mark.parametrize(
    ("answers", "asked"),
    [(["0-1"], 1), (["0,3", "[2-4]", "4-7"], 3), ([""], 1), (["3", "0\n1-3"], 2)],
)
def test_it_waits_for_its_tasks(stage: Stage, answers: list[str], asked: int) -> None:
    stage.put({"lifeCycle": {"preStopExec": "echo bye"}}, size=4)
    stage.executable("flux", _DRAIN)
    stage.executable("sleep", "#!/bin/bash\n")
    (stage.root / "ranks").write_text("\n".join(answers) + "\n")
    where = stage.mount / "config" / "run" / "flux"
    where.mkdir(parents=True)
    (stage.mount / "flux-view.sh").write_text("asFlux=''\n")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(where / "local"))
        found = stage.run("stop-0", index=3)
    assert found.out == "bye\n"
    calls = (stage.root / "drained").read_text().splitlines()
    assert calls[:2] == ["getattr rank", "resource drain 3 taken away"]
    assert len([call for call in calls if call.startswith("jobs")]) == asked
