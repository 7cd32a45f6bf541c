"""Errors: words with a fix on stderr, an exit code, never a traceback."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fournos.api.kinds import APPWRAPPER, FOURNOS_JOB, FOURNOS_SCHEDULE, MINICLUSTER
from fournos.cli.command import Root, World
from fournos.cli.errors import Exit
from fournos.cli.find import (
    complete_cluster,
    complete_context,
    complete_kpi,
    complete_name,
    complete_namespace,
    complete_owner,
    complete_phase,
)
from fournos.client.errors import HistoryBusyError, HistoryFullError, HistoryUnavailableError
from fournos.engine.kube.errors import (
    ConflictError,
    ConnectionLostError,
    CredentialsError,
    ForbiddenError,
    KubeError,
    NoSuchResourceError,
    NotFoundError,
    ServerError,
)
from fournos.engine.kube.resource import NAMESPACE, Resource
from fournos.engine.queueing.kinds import RESOURCE_FLAVOR
from fournos.history.records import body
from fournos.history.results.models import RunValues, ValuePage
from tests.history import a_run, measured_value
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NS, ago, job

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ForbiddenError("jobs is forbidden", status=403), "another namespace with -n"),
        (ForbiddenError("Unauthorized", status=401), "log in again"),
        (CredentialsError("no kubeconfig"), "--kubeconfig"),
        (NoSuchResourceError("not found", status=404), "install the CRDs"),
        (ConnectionLostError("refused"), "check the network"),
        (ServerError("etcd", status=500), "try again"),
        (HistoryUnavailableError("the store does not answer", status=503), "fournos doctor"),
        (HistoryBusyError("too much is being sent for this run now", status=429), "fewer files at once"),
        (HistoryFullError("the volume has 3 MB free", status=507), "fournos history delete"),
        (ConflictError("changed", status=409), "try again"),
        (KubeError("odd"), "odd"),
    ],
)
def test_api_errors(error: KubeError, told: str) -> None:
    api = Api()
    api.fails["list", FOURNOS_JOB] = error
    result = Program(api)("list")
    assert result.exit_code == Exit.SERVER
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert told in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("words", "kind", "file"),
    [
        (("appwrapper", "list"), APPWRAPPER, "deploy/appwrapper"),
        (("explain", "appwrapper/x"), APPWRAPPER, "deploy/appwrapper"),
        (("minicluster", "list"), MINICLUSTER, "deploy/minicluster"),
        (("schedule", "list"), FOURNOS_SCHEDULE, "manifests/crd.yaml"),
        (("get", "x"), FOURNOS_JOB, "manifests/crd.yaml"),
    ],
)
def test_a_kind_that_is_not_installed_is_named_with_its_own_file(
    words: tuple[str, ...], kind: Resource, file: str
) -> None:
    api = Api()
    api.fails["*", kind] = NoSuchResourceError("404 page not found", status=404)
    result = Program(api)(*words)
    assert result.exit_code == Exit.SERVER
    assert f"does not know {kind}" in result.stderr and file in " ".join(result.stderr.split())
    folder = ROOT / file
    assert f"name: {kind}" in (folder if folder.is_file() else folder / "crd.yaml").read_text()


def test_a_namespace_that_is_missing_is_no_missing_job() -> None:
    api = Api()
    api.fails["list", FOURNOS_JOB] = NotFoundError('namespaces "nowhere" not found', status=404)
    result = Program(api)("list", "-n", "nowhere")
    assert result.exit_code == Exit.NOT_FOUND
    assert "name another namespace with -n" in result.stderr


def test_an_internal_error_shows_a_traceback_only_on_request() -> None:
    api = Api()
    api.fails["list", FOURNOS_JOB] = RuntimeError("boom")  # type: ignore[assignment]
    result = Program(api)("list")
    assert result.exit_code == Exit.BUG
    assert "unexpected RuntimeError: boom" in result.stderr
    assert "FOURNOS_DEBUG=1" in result.stderr
    assert isinstance(Program(api, env={"FOURNOS_DEBUG": "1"})("list").exception, RuntimeError)


def test_near_misses_are_offered() -> None:
    result = Program(Api(job("nightly-x7k2m")))("get", "nightly-x7k2n")
    assert result.exit_code == Exit.NOT_FOUND
    assert "did you mean nightly-x7k2m?" in result.stderr


def test_the_newest_job_and_the_newest_of_mine() -> None:
    api = Api(
        job("a", created=ago(hours=1), spec={"owner": "me"}),
        job("b", created=ago(minutes=1), spec={"owner": "you"}),
    )
    assert Program(api)("get", "@last", "-o", "name").stdout == "fournosjob.fournos.dev/b\n"
    mine = Program(api, env={"FOURNOS_OWNER": "me"})
    assert mine("get", "@latest", "-o", "name").stdout == "fournosjob.fournos.dev/a\n"
    result = Program(api, env={"FOURNOS_OWNER": "nobody"})("get", "@last")
    assert result.exit_code == Exit.NOT_FOUND
    assert "of nobody (FOURNOS_OWNER)" in result.stderr


def test_common_options_before_and_after_the_verb() -> None:
    api = Api(job("here"), job("there", namespace="other"))
    program = Program(api)
    assert "there" in program("-n", "other", "list").stdout
    assert "there" in program("-n", "bench", "list", "-n", "other").stdout
    program("--kubeconfig", "a.yaml", "list", "--context", "c")
    assert program.connected[-1] == (Path("a.yaml"), "c")


def test_the_namespace_of_the_environment() -> None:
    api = Api(job("here"), job("there", namespace="other"))
    program = Program(api, env={"FOURNOS_NAMESPACE": "other"})
    assert "there" in program("list").stdout
    assert "here" in program("list", "-n", "bench").stdout


def test_wrong_options_exit_with_2() -> None:
    result = Program(Api())("list", "--nope")
    assert result.exit_code == Exit.USAGE
    assert "No such option" in result.stderr


def test_help_lists_every_exit_code() -> None:
    text = Program(Api())("--help").stdout
    for code in Exit:
        assert f"{code.value}  " in text


def test_no_colour_without_terminal_and_names_with_kind_are_taken() -> None:
    result = Program(Api(job("one")))("get", "fournosjob.fournos.dev/one", "--no-color")
    assert result.exit_code == 0
    assert "\x1b[" not in result.stdout


class Context:
    """What completion uses of typer's."""

    def __init__(self, root: Root) -> None:
        self.params: dict[str, str] = {}
        self._root = root

    def find_object(self, _: type) -> Root:
        return self._root


def test_completion_offers_names_and_is_silent_about_errors() -> None:
    program = Program(Api(job("alpha"), job("beta")))
    context = Context(Root(World(connect=program._connect)))
    assert complete_name(context, "al") == [("alpha", "Running")]  # type: ignore[arg-type]
    assert ("@last", "the newest job") in complete_name(context, "")  # type: ignore[arg-type]
    program.api.fails["list", FOURNOS_JOB] = ConnectionLostError("refused")
    assert complete_name(context, "") == []  # type: ignore[arg-type]


def test_values_of_options_are_completed() -> None:
    program = Program(Api(job("alpha", spec={"owner": "ann"}), job("beta", spec={"owner": "ann"})))
    for kind, name in ((NAMESPACE, "team-a"), (RESOURCE_FLAVOR, "cluster-1")):
        program.api.add(kind, {"metadata": {"name": name}})
    context: Any = Context(Root(World(connect=program._connect)))
    assert complete_owner(context, "") == [("ann", "")], "each once"
    assert [name for name, _ in complete_namespace(context, "te")] == ["team-a"]
    assert [name for name, _ in complete_cluster(context, "cl")] == ["cluster-1"]
    assert complete_phase("Run") == ["Running"] and complete_phase("act") == ["active"]
    assert complete_phase("Running,F") == ["Running,Failed"]


def test_contexts_of_the_kubeconfig_are_completed(tmp_path: Path) -> None:
    names = [{"name": name, "context": {"cluster": "c"}} for name in ("lab", "edge", "lab-2")]
    file = tmp_path / "config"
    file.write_text(json.dumps({"contexts": names}))
    context: Any = Context(Root())
    context.params = {"kubeconfig": str(file)}
    assert complete_context(context, "la") == ["lab", "lab-2"]
    context.params = {"kubeconfig": str(tmp_path / "none")}
    assert complete_context(context, "") == []


def test_kpis_of_the_newest_runs_are_completed() -> None:
    program = Program(Api())
    path = f"/apis/history.fournos.dev/v1/namespaces/{NS}/results?limit=20"
    values = (measured_value("tput", 1.0), measured_value("latency", 2.0), measured_value("tput", 3.0))
    program.api.stored[path] = body(ValuePage((RunValues(a_run(1), values),)), ValuePage)
    context: Any = Context(Root(World(connect=program._connect)))
    assert complete_kpi(context, "") == ["latency", "tput"] and complete_kpi(context, "t") == ["tput"]
    program.api.stored.clear()
    assert complete_kpi(context, "") == []


def test_without_the_packages_of_the_page_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fournos.web.local", None)
    result = Program(Api())("web", "--no-browser")
    assert result.exit_code == 2
    assert "the page needs" in result.stderr and "[web]" in result.stderr
