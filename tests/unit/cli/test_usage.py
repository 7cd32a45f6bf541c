"""fournos usage, on answers of the history."""

from __future__ import annotations

import json
from datetime import timedelta
from urllib.parse import urlencode

import pytest

from fournos.history.records import body
from fournos.history.usage import Share, Usage
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NOW, NS

USED = Usage(
    40.0,
    6,
    (Share("ann", 30.0, 2), Share("", 10.0, 4)),
    (Share("cluster-1", 40.0, 6),),
    (),
    (Share("a100", 40.0, 6),),
)


def program(*, days: int = 7, everywhere: bool = False) -> Program:
    api = Api()
    where = "" if everywhere else f"/namespaces/{NS}"
    query = urlencode({"since": (NOW - timedelta(days=days)).isoformat()})
    api.stored = {f"/apis/history.fournos.dev/v1{where}/usage?{query}": body(USED, Usage)}
    return Program(api)


def test_all_tables_that_have_rows() -> None:
    lines = program()("usage").stdout.splitlines()
    assert lines[0] == "40.0 GPU-hours in 6 runs since 7d ago"
    assert [line.split() for line in lines[2:5]] == [
        ["OWNER", "GPU-HOURS", "SHARE", "RUNS"],
        ["ann", "30.0", "75%", "2"],
        ["none", "10.0", "25%", "4"],
    ]
    assert "CLUSTER" in lines[6] and "GPU-TYPE" in lines[9] and len(lines) == 11, "no project has any"


def test_for_a_spreadsheet() -> None:
    lines = program()("usage", "-o", "csv").stdout.splitlines()
    assert lines[:3] == ["by,name,gpu_hours,runs", "owners,ann,30.000,2", "owners,,10.000,4"]
    assert lines[-1] == "gpu_types,a100,40.000,6"


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
