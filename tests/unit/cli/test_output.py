"""Nothing that somebody else wrote steers the terminal of whoever looks at it."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.live import Live
from rich.text import Text

from fournos import cli
from fournos.cli.list import view
from fournos.cli.options import Format
from fournos.cli.output import Output, table
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.logs import HumanFormatter, JsonFormatter
from fournos.systems.clusters.build import lock_job
from fournos.systems.jobs.rules import check_manifest

EVIL = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b8m\x7f\u202e\x08"
SEEN = r"\x1b]52;c;ZXZpbA=="


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def harmless(printed: str, *, styles: bool = False) -> None:
    if styles:  # those of the output's own
        printed = re.sub(r"\x1b\[[0-9;]*m", "", printed)
    assert all(char.isprintable() or char in "\n\t" for char in printed), repr(printed)


@pytest.fixture(params=[io.StringIO, Terminal])
def printed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setenv("TERM", "xterm")

    def run(act: Callable[[Output], Any], form: Format = Format.TABLE) -> str:
        out, err = request.param(), request.param()
        monkeypatch.setattr("sys.stdout", out)
        monkeypatch.setattr("sys.stderr", err)
        act(Output(form))
        return out.getvalue() + err.getvalue()  # type: ignore[no-any-return]

    return run


@pytest.mark.parametrize(
    "act",
    [
        lambda out: out.say(EVIL),
        lambda out: out.say(Text.assemble(("job ", "bold"), EVIL)),
        lambda out: out.lines([EVIL, Text(EVIL)]),
        lambda out: out.hint(EVIL),
        lambda out: out.warn(EVIL),
        lambda out: out.lines(table(["A"], [[EVIL], [Text(EVIL, "red")]])),
        lambda out: out.err.print(Text(EVIL)),
    ],
)
def test_every_way_out_escapes(act: Callable[[Output], Any], printed: Callable[..., str]) -> None:
    found = printed(act)
    harmless(found, styles=True)
    assert SEEN in found


def test_a_text_is_written_as_it_is_but_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, expected in ((io.StringIO(), EVIL), (Terminal(), None)):
        monkeypatch.setattr("sys.stdout", stream)
        Output().text(EVIL)
        if expected is None:
            harmless(stream.getvalue())
        else:
            assert stream.getvalue() == expected


def test_no_command_writes_past_the_output() -> None:
    """What a command prints may be anybody's: `Output` is the place that escapes it."""
    past = re.compile(r"typer\.echo|sys\.stdout\.write|(?<![.\w])print\(")
    found = {path.name for path in Path(cli.__file__).parent.glob("*.py") if past.search(path.read_text())}
    assert found == {"app.py"}, "which prints its version alone"


def test_a_list_of_jobs(printed: Callable[..., str]) -> None:
    job = {
        "metadata": {"name": "x", "namespace": "n", "uid": "u", "creationTimestamp": "2030-01-01T00:00:00Z"},
        "spec": {"cluster": "c", "owner": f"eve{EVIL}\nadmin   Running"},
        "status": {"phase": "Running", "message": "ok\x1b[8m"},
    }
    now = datetime(2030, 1, 2, tzinfo=UTC)
    found = printed(lambda out: out.lines(view([job], now=now, wide=False, namespaces=False, width=None)))
    harmless(found, styles=True)
    assert SEEN in found and len(found.splitlines()) == 2, "a name makes no row of its own"


def test_a_live_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    with Live(console=Output().out, auto_refresh=False) as live:
        live.update(Text(EVIL), refresh=True)
    assert "\x1b]52" not in screen.getvalue() and "\x9b" not in screen.getvalue()
    assert SEEN in screen.getvalue()


@pytest.mark.parametrize("form", [Format.JSON, Format.YAML])
def test_structured_answers_keep_their_meaning(form: Format, printed: Callable[..., str]) -> None:
    value = {"owner": EVIL, "good": "Zoë", "lines": "a\nb\tc"}
    found = printed(lambda out: out.data(value), form)
    harmless(found)
    assert (json.loads(found) if form is Format.JSON else yaml.safe_load(found)) == value
    plain = printed(lambda out: out.data({"good": "Zoë"}), form)
    assert "Zoë" in plain


@pytest.mark.parametrize("formatter", [HumanFormatter(), JsonFormatter()])
def test_logs(formatter: logging.Formatter) -> None:
    record = logging.LogRecord("x", logging.INFO, "p", 1, "the worker said %s", (EVIL,), None)
    found = formatter.format(record)
    harmless(found)
    assert "ZXZpbA" in found


def test_an_owner_from_before_the_rule_still_gets_the_lock() -> None:
    job = {**lock_job("c", f"eve{EVIL}" + "\x1b" * 1000, namespace="n")}
    assert check_manifest(job) == []
    assert Key("n", "cluster-lock-c").name == job["metadata"]["name"]
