"""Objects of other kinds: their lists, and one of each with its facts, tables and explanation."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import APPWRAPPER, PIPELINE_RUN
from fournos.engine.kube.errors import ForbiddenError, NoSuchResourceError, NotFoundError
from fournos.engine.kube.resource import Key
from fournos.insight.errors import MissingError
from fournos.insight.sheets import SheetLine, listed, sheet
from tests.unit.cli.api import Api
from tests.unit.cli.objects import NOW, NS, ago

QUEUED = {"kueue.x-k8s.io/queue-name": "fournos-queue"}


def obj(kind: str, name: str, *, labels: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": NS, "uid": f"uid-{name}", "creationTimestamp": ago(minutes=5)}
    return {"kind": kind, "metadata": {**meta, "labels": QUEUED if labels is None else labels}, **fields}


WRAPPER = obj(
    "AppWrapper",
    "train",
    spec={"suspend": True, "components": [{"template": {"kind": "Pod", "metadata": {"name": "p"}}}]},
    status={"phase": "Suspended"},
)
FLUX = obj("MiniCluster", "flux", spec={"size": 4}, status={"phase": "Ready", "ready": 4, "maximumSize": 8})
BUILD = obj("PipelineRun", "build", spec={"status": "PipelineRunPending"}, status={})


async def test_each_kind_has_its_list() -> None:
    found = {one.kind: one for one in await listed(Api(WRAPPER, FLUX, BUILD), NS)}
    assert list(found) == ["AppWrapper", "MiniCluster", "PipelineRun"]
    assert found["MiniCluster"].lines == (
        SheetLine(NS, "flux", "Ready", "fournos-queue", ago(minutes=5), ""),
    )
    assert [one.phase for one in found["PipelineRun"].lines] == ["Waiting"]
    assert found["AppWrapper"].lines[0].name == "train"


async def test_a_kind_that_names_no_queue_is_left_out() -> None:
    found = {one.kind: one for one in await listed(Api(obj("PipelineRun", "own", labels={})), NS)}
    assert found["PipelineRun"].lines == ()


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (NoSuchResourceError("404", status=404), "It is not installed."),
        (ForbiddenError("no", status=403), "You may not list it."),
    ],
)
async def test_a_kind_that_is_not_readable_says_so(error: Exception, problem: str) -> None:
    api = Api(FLUX)
    api.fails = {("list", APPWRAPPER): error, ("list", PIPELINE_RUN): error}  # type: ignore[dict-item]
    found = {one.kind: one.problem for one in await listed(api, NS)}
    assert found == {"AppWrapper": problem, "MiniCluster": "", "PipelineRun": problem}


async def test_an_appwrapper_has_its_components_and_why_it_waits() -> None:
    found = await sheet(Api(WRAPPER), "AppWrapper", Key(NS, "train"), NOW)
    assert (found.kind, found.phase, found.command) == (
        "AppWrapper",
        "Suspended",
        "fournos explain appwrapper/train",
    )
    assert found.tables[0].rows == (("Pod", "p", "not made", ""),)
    assert "train" in found.explanation.verdict
    assert ("Queue", "fournos-queue") in found.facts


async def test_a_minicluster_has_its_size_and_pods_by_rank() -> None:
    pod = {
        "kind": "Pod",
        "metadata": {
            "name": "flux-0-x",
            "namespace": NS,
            "uid": "p",
            "labels": {"app.kubernetes.io/instance": "x", "batch.kubernetes.io/job-completion-index": "0"},
        },
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Running"},
    }
    api = Api(FLUX, pod)
    selected = api.list

    async def without_selector(resource: Any, *, namespace: str = "", selector: str = "") -> Any:
        return await selected(resource, namespace=namespace)

    api.list = without_selector  # type: ignore[assignment, method-assign]
    found = await sheet(api, "MiniCluster", Key(NS, "flux"), NOW)
    assert ("Size", "4 of at most 8") in found.facts and ("Ready", "4") in found.facts
    (pods,) = [one for one in found.tables if one.title == "Pods"]
    assert pods.rows == (("0", "flux-0-x", "Running", "node-1"),)


async def test_a_pipelinerun_is_explained_by_the_rules_of_its_kind() -> None:
    found = await sheet(Api(BUILD), "PipelineRun", Key(NS, "build"), NOW)
    assert found.phase == "Waiting"
    assert found.command == "fournos explain pipelinerun/build"


@pytest.mark.parametrize(("kind", "error"), [("Secret", MissingError), ("MiniCluster", NotFoundError)])
async def test_another_kind_or_name_is_not_shown(kind: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        await sheet(Api(), kind, Key(NS, "one"), NOW)
