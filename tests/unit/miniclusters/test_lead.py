"""The rendered entrypoint of a lead broker, run under bash: modes, options, exit codes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.miniclusters.stage import QUIET, Ran, Stage, after, ran

# --- what the lead broker runs -----------------------------------------------------------------------


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


# --- results -----------------------------------------------------------------------------------------


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
