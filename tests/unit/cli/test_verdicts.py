"""fournos baseline and fournos acknowledge, and runs that are named by @last, @baseline and labels."""

from __future__ import annotations

import json
from typing import Any

from fournos.history.api.verdicts import Acknowledged, Withdrawn
from fournos.history.records import Detail, Page, body
from fournos.history.regressions.review import Baseline
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NS
from tests.unit.cli.test_compare_runs import compared
from tests.unit.cli.test_stored import BEGAN, RUNS, run

PREFIX = f"/apis/history.fournos.dev/v1/namespaces/{NS}"
LAST = f"{RUNS}?kind=FournosJob&phase=Succeeded&owner=me&limit=200"
LABELLED = f"{RUNS}?kind=FournosJob&phase=Succeeded&label=team%3Dx&limit=1"
MADE = Acknowledged("tput", {"model": "llama"}, "gone", False, BEGAN, "wanted", "ann", BEGAN)


def served() -> Api:
    api = Api()
    first, second = run("a", fingerprint="f"), run("b", fingerprint="f")
    api.stored = {
        f"{RUNS}/a": body(Detail(first), Detail),
        f"{RUNS}/b": body(Detail(second), Detail),
        LAST: body(Page((second,)), Page),
        LABELLED: body(Page((second,)), Page),
        f"{PREFIX}/baselines": body([Baseline(first, BEGAN, "ann", "release 1")], list[Baseline]),
    }
    return api


def compare_api(reference: str, other: str) -> Api:
    api = served()
    (answer,) = compared(50).stored.values()
    path = f"{RUNS}/uid-{reference}/results/comparison?with=uid-{other}&across=false"
    api.stored[path] = answer
    return api


def test_a_comparison_with_the_baseline_the_last_one_and_by_labels() -> None:
    for words in (("@baseline", "b"), ("@baseline", "@last"), ("a", "team=x"), ("@baseline", "team=x")):
        result = Program(compare_api("a", "b"), env={"FOURNOS_OWNER": "me"})("compare", *words)
        assert result.exit_code == 0, result.stderr
        assert "worse" in result.stdout


def test_names_alone_ask_for_nothing_but_the_comparison() -> None:
    api = compared(50)
    Program(api)("compare", "a", "b")
    assert len(api.raw_requests) == 1


def test_a_selector_that_is_wrong() -> None:
    for words, message in (
        (("@basline", "a"), "@basline: write a name"),
        (("@baseline", "@baseline"), "name one beside it"),
        (("a", "team!=x"), "write name=value, several with commas"),
    ):
        result = Program(served())("compare", *words)
        assert result.exit_code == 2 and message in result.stderr


def test_without_a_baseline_the_fix_is_named() -> None:
    api = served()
    api.stored[f"{PREFIX}/baselines"] = b"[]"
    result = Program(api)("compare", "@baseline", "b")
    assert result.exit_code == 5
    assert "fournos baseline pin" in result.stderr


def test_baselines_are_pinned_listed_and_unpinned() -> None:
    api = served()
    for path in ("uid-a/baseline", "uid-b/baseline", "uid-a/keep"):
        api.stored[f"{RUNS}/{path}"] = b"{}"
    assert Program(api)("baseline", "pin", "a", "--reason", "x").stdout == "a is the baseline\n"
    assert api.raw_requests[-1] == ("PUT", f"{RUNS}/uid-a/baseline")
    program = Program(api, env={"FOURNOS_OWNER": "me"})
    assert program("baseline", "pin", "@last").stdout == "b is the baseline\n"
    result = Program(api)("baseline", "unpin", "a")
    assert result.stdout == "a is not a baseline any more\n" and "--expire" in result.stderr
    assert api.raw_requests[-1] == ("DELETE", f"{RUNS}/uid-a/baseline")
    assert Program(api)("baseline", "unpin", "a", "--expire").stderr == ""
    assert api.raw_requests[-1] == ("DELETE", f"{RUNS}/uid-a/keep")
    lines = Program(api)("baseline", "list").stdout.splitlines()
    assert lines[0].split() == ["NAME", "PIPELINE", "PROJECT", "CLUSTER", "PINNED", "BY", "REASON"]
    assert lines[1].split()[0] == "a" and lines[1].endswith("ann  release 1")
    (found,) = json.loads(Program(api)("baseline", "list", "-o", "json").stdout)
    assert (found["run"]["name"], found["reason"]) == ("a", "release 1")
    api.stored["/apis/history.fournos.dev/v1/baselines"] = api.stored[f"{PREFIX}/baselines"]
    assert Program(api)("baseline", "list", "-A").stdout.splitlines()[1].split()[0] == NS
    api.stored[f"{PREFIX}/baselines"] = b"[]"
    assert "no baselines" in Program(api)("baseline", "list").stderr


def test_acknowledgements() -> None:
    made: Any = tuple[Acknowledged, ...]
    api = served()
    api.stored[f"{RUNS}/a/acknowledgements?kpi="] = body((MADE,), made)
    api.stored[f"{RUNS}/uid-b/acknowledgements?kpi=tput"] = body((MADE,), made)
    for words in (("add", "a", "--reason", "wanted"), ("list", "a")):
        lines = Program(api)("acknowledge", *words).stdout.splitlines()
        assert lines[0].split() == ["SINCE", "KPI", "TEST", "NOW", "BY", "REASON"]
        assert lines[1].split() == ["gone", "tput", "model=llama", "lower", "ann", "wanted"]
    assert [method for method, _ in api.raw_requests] == ["POST", "GET"]
    program = Program(api, env={"FOURNOS_OWNER": "me"})
    (data,) = json.loads(program("acknowledge", "list", "@last", "--kpi", "tput", "-o", "json").stdout)
    assert (data["kpi_id"], data["reason"]) == ("tput", "wanted")
    api.stored[f"{RUNS}/a/acknowledgements?kpi="] = body(Withdrawn(1), Withdrawn)
    assert Program(api)("acknowledge", "withdraw", "a").exit_code == 0
    assert api.raw_requests[-1][0] == "DELETE"
    api.stored[f"{RUNS}/a/acknowledgements?kpi="] = b"[]"
    assert "Nothing is acknowledged." in Program(api)("acknowledge", "list", "a").stderr
    assert Program(api)("acknowledge", "add", "a").exit_code == 2, "a reason is needed"
