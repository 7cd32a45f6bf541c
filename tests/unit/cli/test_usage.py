"""fournos usage, on answers of the history."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlencode

import pytest

from fournos.cli.usage import PARTS
from fournos.history.api.wire import body
from fournos.history.usage import Share, Usage, UsagePart
from fournos.history.waited import EDGES, Waited
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NOW, NS

USED = Usage(
    40.0,
    6,
    (Share("ann", 30.0, 2), Share("", 10.0, 4)),
    (Share("cluster-1", 40.0, 6),),
    (),
    (Share("a100", 40.0, 6),),
    tuple(
        UsagePart(NOW - timedelta(hours=2 - hour), NOW - timedelta(hours=1 - hour), (Share("ann", gpus, 1),))
        for hour, gpus in enumerate((2.0, 8.0))
    ),
)


def program(*, days: int = 7, everywhere: bool = False) -> Program:
    api = Api()
    where = "" if everywhere else f"/namespaces/{NS}"
    query = urlencode({"since": (NOW - timedelta(days=days)).isoformat(), "parts": PARTS})
    api.stored = {f"/apis/history.fournos.dev/v1{where}/usage?{query}": body(USED, Usage)}
    return Program(api)


def test_all_tables_that_have_rows() -> None:
    lines = program()("usage").stdout.splitlines()
    assert lines[0] == "40.0 GPU-hours in 6 runs since 7d ago"
    assert lines[1] == "GPUs in use: ▁█ 2.0 to 8.0"
    assert [line.split() for line in lines[3:6]] == [
        ["OWNER", "GPU-HOURS", "SHARE", "RUNS"],
        ["ann", "30.0", "75%", "2"],
        ["none", "10.0", "25%", "4"],
    ]
    assert "CLUSTER" in lines[7] and "GPU-TYPE" in lines[10] and len(lines) == 12, "no project has any"


def test_how_long_runs_waited() -> None:
    counts = tuple(4 if edge == 60 else 0 for edge in (*EDGES, 0))
    api = program().api
    (path,) = api.stored
    api.stored[path] = body(replace(USED, waits=(Waited("", counts), Waited("Quota", counts))), Usage)
    lines = Program(api)("usage").stdout.splitlines()[-3:]
    assert [line.split("  ")[0] for line in lines] == ["WAITED FOR", "all causes", "Quota"]
    assert lines[2].split() == ["Quota", "45s", "57s", "4"]
    assert "Quota" not in Program(api)("usage", "--by", "owner").stdout


def test_one_table_of_all_namespaces() -> None:
    shown = program(days=30, everywhere=True)("usage", "-A", "--since", "30d", "--by", "cluster").stdout
    assert "cluster-1" in shown and "ann" not in shown


def test_for_programs() -> None:
    answer = json.loads(program()("usage", "-o", "json").stdout)
    assert (answer["hours"], answer["owners"][0]["name"]) == (40.0, "ann")


@pytest.mark.parametrize("since", ["soon", "7", "-1d", "0d"])
def test_a_period_that_is_none(since: str) -> None:
    result = program()("usage", f"--since={since}")
    assert result.exit_code == 2 and "30d" in result.stderr
