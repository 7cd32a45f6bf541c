"""The rendered entrypoint of a lead broker, run under bash: modes, options, exit codes."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.systems.miniclusters import launch
from tests.unit.systems.miniclusters.stage import FLUX, QUIET, Ran, Sandbox, after, ran

# --- what the lead broker runs -----------------------------------------------------------------------


def test_quiet_output_is_that_of_the_command_alone(stage: Sandbox) -> None:
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
def test_nodes_and_tasks(stage: Sandbox, size: int, tasks: int | None, flags: list[str]) -> None:
    found = ran(stage, size=size, **({} if tasks is None else {"tasks": tasks}))
    submitted = found.call("submit")
    assert submitted == ["submit", *flags, "--quiet", "--watch", "echo", "hello", "world"]


def test_the_broker_is_started_with_its_options(stage: Sandbox) -> None:
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
        f"-o--config-path={config}/etc/flux/config",
        f"-o-Scron.directory={config}/etc/flux/system/cron.d",
        "-o-Stbon.fanout=256",
        f"-o-Srundir={config}/run/flux",
        f"-o-Sstatedir={config}/var/lib/flux",
        f"-o-Slocal-uri=local://{config}/run/flux/local",
        "-o-Stbon.topo=kary:1",
        "-o-Stbon.zmqdebug=1",
        "-o-Slog-stderr-level=7",
        "-o-Slog-stderr-mode=local",
        f"-o-Scontent.dump={stage.root}/state/.new-archive.tar.gz",
        "-o-Sbroker.quorum=2",
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


def test_an_archive_that_exists_is_loaded(stage: Sandbox) -> None:
    path = stage.root / "archive.tar"
    path.write_text("state")
    start = ran(stage, archive={"path": str(path)}).call("start")
    beside = stage.root / ".new-archive.tar"
    assert {f"-o-Scontent.restore={path}", f"-o-Scontent.dump={beside}"} <= set(start)
    assert path.read_text() == "state and more"
    assert not beside.exists()
    assert not [word for word in ran_worker(stage).call("start") if "content" in word]


def ran_worker(stage: Sandbox) -> Ran:
    (stage.root / "calls").unlink()
    return stage.run(index=1)


def test_options_of_the_submission(stage: Sandbox) -> None:
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
def test_a_launcher_is_not_submitted(stage: Sandbox, where: str) -> None:
    command = {"command": "sh -c 'echo I launch; exit 4'"}
    if where == "container":
        found = ran(stage, {**command, "launcher": True})
    else:
        found = ran(stage, command, launcher=True)
    assert (found.code, found.out) == (4, "I launch\n")
    assert not [call for call in found.calls if call[0] == "submit"]


def test_a_command_keeps_its_quotes_and_sees_variables(stage: Sandbox) -> None:
    command = "printf '%s|' \"a b\" 'c $HOME' $WHO\n  && ; | > x * \\\n  done"
    found = ran(stage, {"command": command, "commands": {"init": "WHO=me"}, "workingDir": "/"})
    printed = found.out.split("|")
    assert printed[:3] == ["a b", "c $HOME", "me"]
    assert printed[3:5] == ["&&", ";"]
    assert found.call("submit")[-1] == "done"


def test_a_script_is_run_with_its_escapes_taken_out(stage: Sandbox) -> None:
    text = '#!/bin/bash\nNAME=world\necho "hello \\${NAME} \\`echo 1\\` \\\\n $NAME"'
    found = ran(stage, {"command": None, "commands": {"script": text}}, logging=QUIET)
    assert found.out == "hello world 1 \\n world\n"
    assert found.call("submit")[-2:] == ["/bin/bash", f"{stage.root}/entrypoint/script-0.sh"]


def test_a_batch_is_numbered_by_line(stage: Sandbox) -> None:
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


def test_a_raw_batch_is_left_as_it_is(stage: Sandbox) -> None:
    stage.put(
        {"command": "flux filemap map -C /data mpi.sif\nflux queue idle", "batch": True, "batchRaw": True}
    )
    text = (stage.root / "entrypoint" / "batch-0.sh").read_text()
    assert text == "#!/bin/bash\nflux filemap map -C /data mpi.sif\nflux queue idle\n"


def test_a_raw_batch_is_a_batch(stage: Sandbox) -> None:
    found = ran(stage, {"command": "flux queue idle", "batchRaw": True})
    assert found.call("batch")[-1] == f"{stage.root}/entrypoint/batch-0.sh"
    (stage.mount / "flux-operator-result").unlink()
    launched = ran(stage, {"command": "echo launched", "batchRaw": True, "launcher": True})
    assert launched.out == "launched\n"


def test_a_batch_of_a_script(stage: Sandbox) -> None:
    """It takes the command's place: one job, or the batch script itself."""
    script = {"command": None, "commands": {"script": "#!/bin/bash\necho \\$HOME\n"}}
    stage.put({**script, "batch": True})
    text = (stage.root / "entrypoint" / "batch-0.sh").read_text()
    assert text.count("flux submit ") == 1
    assert f"job-0.out /bin/bash {stage.root}/entrypoint/script-0.sh\n" in text
    stage.put({**script, "batchRaw": True})
    assert (stage.root / "entrypoint" / "batch-0.sh").read_text() == "#!/bin/bash\necho $HOME\n"


@pytest.mark.parametrize("quiet", [False, True])
def test_debug_of_a_batch_is_that_of_its_submissions(stage: Sandbox, quiet: bool) -> None:
    stage.put({"command": "echo one", "batch": True}, logging={"debug": True, "quiet": quiet})
    text = (stage.root / "entrypoint" / "batch-0.sh").read_text()
    assert "flux submit --flags waitable -vvv --error=" in text
    stage.executable("flux", FLUX.replace('case "$1" in', '[[ $1 != batch ]] || echo noise\ncase "$1" in', 1))
    found = stage.run()
    assert not [word for word in found.call("batch") if word.startswith("-v")], "flux batch has no -v"
    assert ("noise" in found.out) is not quiet


def test_a_batch_runs_where_its_user_may_write(stage: Sandbox) -> None:
    stage.executable("flux", FLUX.replace('case "$1" in', '[[ $1 != batch ]] || pwd\ncase "$1" in', 1))
    stage.put({"command": "echo one", "batch": True})
    assert stage.run().out == f"{stage.root}\n"
    (stage.mount / "flux-operator-result").unlink()
    script = stage.root / "entrypoint" / "wait-0.sh"
    script.write_text(script.read_text().replace("-w .", "-w /nowhere"))
    assert stage.run().out == f"{stage.root}/out\n"


def test_a_script_is_run_by_the_interpreter_that_it_names(stage: Sandbox) -> None:
    text = "#!/usr/bin/env python3\nprint('hello', 1 + 1)\n"
    assert ran(stage, {"command": None, "commands": {"script": text}}).out == "hello 2\n"
    assert launch.script_words("#!/bin/sh -e -x\n", 2) == "/bin/sh '-e -x' /flux_operator/script-2.sh"
    assert launch.script_words("echo", 0) == "/bin/bash /flux_operator/script-0.sh"


def test_a_log_begins_with_what_runs_unless_it_is_quiet(stage: Sandbox) -> None:
    loud = ran(stage)
    expected = "\n".join(loud.banner)
    assert "Flux 0.61.0 on flux-sample-0, as user " in expected
    assert "-Slog-stderr-level=6" in expected and "Command: flux submit" in expected
    (stage.mount / "flux-operator-result").unlink()
    quiet = ran(stage, logging=QUIET)
    assert quiet.banner == []
    assert "-o-Slog-stderr-level=3" in quiet.calls[-2], "why a broker does not start is always shown"


@pytest.mark.parametrize(
    ("flux", "present", "absent"),
    [
        ({}, {"-o-Stbon.connect_timeout=5s", "-o-Slog-stderr-level=6"}, "no"),
        ({"connectTimeout": "0s"}, set(), "-o-Stbon.connect_timeout"),
        ({"connectTimeout": ""}, set(), "-o-Stbon.connect_timeout"),
        ({"disableSocket": True}, set(), "-o-Slocal-uri"),
        ({"scheduler": {"queuePolicy": "easy"}}, set(), "-o-Sbroker.quorum"),
    ],
)
def test_undocumented_options(stage: Sandbox, flux: dict[str, Any], present: set[str], absent: str) -> None:
    start = ran(stage, flux={"container": {"disable": True}, **flux}).call("start")
    assert present <= set(start)
    assert not [word for word in start if word.startswith(absent)]


def test_an_option_with_a_comma_stays_in_one_piece(stage: Sandbox) -> None:
    """flux start splits what comes with -o."""
    start = ran(stage, archive={"path": f"{stage.root}/a,b.tar"}).call("start")
    assert f"-Scontent.dump={stage.root}/.new-a,b.tar" in start


def test_a_prefix_is_in_front_of_all_that_starts_flux(stage: Sandbox) -> None:
    prefix = {"commands": {"prefix": "env FUSED=1"}}
    stage.executable("env", '#!/bin/bash\necho "$*" >>"$STAGE/fused"\nshift\nexec "$@"\n')
    for container, index in ((prefix, 1), ({**prefix, "command": None}, 0)):
        assert ran(stage, container, size=2, index=index).code == 0
    fused = (stage.root / "fused").read_text().splitlines()
    assert [line.split()[:3] for line in fused] == [
        ["FUSED=1", "flux", "start"],
        ["FUSED=1", "flux", "broker"],
    ]


@pytest.mark.parametrize(
    ("container", "spec"),
    [({"command": None}, {}), ({}, {"interactive": True})],
    ids=["no command", "asked for"],
)
def test_an_interactive_broker_has_no_program(
    stage: Sandbox, container: dict[str, Any], spec: dict[str, Any]
) -> None:
    found = ran(stage, container, **spec)
    broker = found.call("broker")
    assert broker[-1] == "-Sbroker.rc2_none"
    assert not [call for call in found.calls if call[0] in ("start", "submit")]


def test_diagnostics_take_the_place_of_the_command(stage: Sandbox) -> None:
    stage.executable("sleep", "#!/bin/bash\necho asleep $1\n")
    found = ran(stage, {"diagnostics": True})
    assert [call[0] for call in found.calls if call[0] not in ("R", "start")] == [
        "overlay",
        "lsattr",
        "dmesg",
    ]
    assert found.out == "asleep infinity\n"


# --- results -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("code", [0, 3, 255])
def test_the_result_is_the_commands_and_post_runs_all_the_same(
    stage: Sandbox, strict: bool, code: int
) -> None:
    container = {"command": f"sh -c 'exit {code}'", "commands": {"post": "echo hello post"}}
    found = ran(stage, container, logging={"strict": strict, "quiet": True})
    assert (found.code, found.out) == (code, "hello post\n")
    assert (stage.root / "termination").read_text() == str(code)
    assert (stage.mount / "flux-operator-complete.txt").exists()


def test_a_failing_post_counts_only_after_a_good_command(stage: Sandbox) -> None:
    for strict, code in ((True, 9), (False, 0)):
        found = ran(stage, {"commands": {"post": "exit 9"}}, logging={"strict": strict})
        assert found.code == code
        assert (stage.root / "termination").read_text() == str(code), "one result, wherever one looks"
        (stage.mount / "flux-operator-result").unlink()
    assert ran(stage, {"command": "sh -c 'exit 3'", "commands": {"post": "false"}}).code == 3


def test_post_ends_at_its_first_error_if_strict(stage: Sandbox) -> None:
    post = {"post": "echo one\nfalse\necho two"}
    assert ran(stage, {"commands": post}, logging={"strict": True, "quiet": True}).out == "hello world\none\n"
    (stage.mount / "flux-operator-result").unlink()
    assert ran(stage, {"commands": post}, logging={"strict": False, "quiet": True}).out.endswith("two\n")


@pytest.mark.parametrize("code", [137, 143])
def test_a_command_that_was_killed_is_a_result_too(stage: Sandbox, code: int) -> None:
    """The Job must not take it for a pod that was killed."""
    found = ran(stage, {"command": f"sh -c 'exit {code}'"})
    assert found.code == 1
    assert (stage.root / "termination").read_text() == str(code)


def test_a_lead_that_starts_again_does_not_run_the_command_again(stage: Sandbox) -> None:
    found = ran(stage, {"command": "sh -c 'exit 3'"})
    (stage.root / "termination").unlink()
    again = stage.run()
    assert again.code == 3
    assert [call[0] for call in again.calls].count("start") == 1
    assert (stage.root / "termination").read_text() == "3"
    assert found.calls == again.calls[: len(found.calls)]


def test_with_retries_asked_for_it_does(stage: Sandbox) -> None:
    ran(stage, {"command": "sh -c 'exit 3'"}, backoffLimit=2)
    assert [call[0] for call in stage.run().calls].count("start") == 2


def test_strict_ends_at_an_error_before_the_command(stage: Sandbox) -> None:
    pre = {"commands": {"pre": "false"}}
    assert ran(stage, pre, logging={"strict": True}).code == 1
    assert not [call for call in ran(stage, pre).calls if call[0] == "start"]
    assert ran(stage, pre, logging={"strict": False}).out == "hello world\n"
