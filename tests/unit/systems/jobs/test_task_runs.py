"""A TaskRun is one of a PipelineRun if it runs what Tekton makes of the run's Pipeline."""

from __future__ import annotations

from copy import deepcopy
from time import process_time
from typing import Any

import pytest

from fournos.systems.jobs.own_job import believed, difference, fits

STEP = {"name": "main", "image": "bench", "script": "run $(params.model) $(tasks.prepare.results.port) now"}
SECRET = {"name": "vault-secrets", "projected": {"sources": []}}
UID = "0b29e4f5-7a3c-4f0e-9a44-1d1b5ac4c0de"
RUN: dict[str, Any] = {
    "metadata": {"name": "victim", "uid": UID},
    "spec": {
        "workspaces": [
            {"name": "artifacts", "volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}},
            {"name": "code", "configMap": {"name": "code"}},
        ],
        "taskRunTemplate": {"serviceAccountName": "pipeline", "podTemplate": {"volumes": [SECRET]}},
        "taskRunSpecs": [
            {"pipelineTaskName": "run", "timeout": "1h", "podTemplate": {"nodeSelector": {"gpu": "yes"}}}
        ],
    },
    "status": {
        "childReferences": [
            {"kind": "TaskRun", "name": "victim-run", "pipelineTaskName": "run"},
            {"kind": "TaskRun", "name": "victim-inline", "pipelineTaskName": "inline"},
        ],
        "pipelineSpec": {
            "tasks": [
                {
                    "name": "run",
                    "taskRef": {"name": "bench"},
                    "params": [
                        {"name": "model", "value": "llama"},
                        {"name": "port", "value": "port-$(tasks.prepare.results.port)"},
                        {"name": "args", "value": ["-v", "$(tasks.prepare.results.args[*])", "end"]},
                        {"name": "all", "value": "$(tasks.prepare.results.args[*])"},
                    ],
                    "matrix": {
                        "params": [{"name": "size", "value": ["1", "2"]}],
                        "include": [{"params": [{"name": "batch", "value": "8"}]}],
                    },
                    "workspaces": [{"name": "out", "workspace": "artifacts", "subPath": "a"}],
                }
            ],
            "finally": [
                {"name": "inline", "taskSpec": {"metadata": {}, "spec": None, "steps": [STEP], "params": []}}
            ],
        },
    },
}
OWNER = {
    "apiVersion": "tekton.dev/v1",
    "kind": "PipelineRun",
    "name": "victim",
    "uid": UID,
    "controller": True,
}
CLAIM = "pvc-ba8238a61b"
"""`pvc-` and the first ten digits of the SHA-256 of the workspace's name and the run's UID."""


def of_reference() -> dict[str, Any]:
    """The TaskRun that Tekton 1.9 makes of the task `run`."""
    return {
        "metadata": {"name": "victim-run", "ownerReferences": [OWNER]},
        "spec": {
            "taskRef": {"name": "bench", "kind": "Task"},
            "params": [
                {"name": "size", "value": "2"},
                {"name": "batch", "value": "8"},
                {"name": "model", "value": "llama"},
                {"name": "port", "value": "port-8080"},
                {"name": "args", "value": ["-v", "a", "b", "end"]},
                {"name": "all", "value": ["a", "b"]},
            ],
            "workspaces": [{"name": "out", "subPath": "a", "persistentVolumeClaim": {"claimName": CLAIM}}],
            "podTemplate": {"volumes": [SECRET], "nodeSelector": {"gpu": "yes"}},
            "serviceAccountName": "pipeline",
            "timeout": "1h0m0s",
        },
    }


def written_in() -> dict[str, Any]:
    """That of the task `inline`, whose spec stands in the Pipeline."""
    step = {**STEP, "script": "run $(params.model) 8080 now", "computeResources": {}}
    return {
        "metadata": {"name": "victim-inline", "ownerReferences": [OWNER]},
        "spec": {
            "taskSpec": {"steps": [step]},
            "workspaces": [{"name": "code", "configMap": {"name": "code"}}],
            "podTemplate": {"volumes": [SECRET]},
        },
    }


def test_what_tekton_makes_is_of_the_run() -> None:
    assert difference(of_reference(), RUN) == ""
    assert difference(written_in(), RUN) == ""
    shared = of_reference()
    shared["spec"]["workspaces"][0]["persistentVolumeClaim"]["claimName"] += (
        "-affinity-assistant-1bdd5b5b92-0"
    )
    assert difference(shared, RUN) == "", "with coschedule: pipelineruns"


FORGED: dict[str, tuple[dict[str, Any], str]] = {
    "a spec of its own": ({"taskRef": None, "taskSpec": {"steps": [{"image": "evil"}]}}, "taskRef"),
    "another task": ({"taskRef": {"name": "evil", "kind": "Task"}}, "taskRef"),
    "a task of another kind": ({"taskRef": {"name": "bench", "kind": "ClusterTask"}}, "taskRef"),
    "a task of another place": (
        {"taskRef": {"resolver": "git", "params": [{"name": "url", "value": "evil"}]}},
        "taskRef",
    ),
    "both": ({"taskSpec": {"steps": [{"image": "evil"}]}}, "taskSpec"),
    "another parameter": ({"params": [{"name": "model", "value": "evil"}]}, "params"),
    "one parameter more": ({"params": [*of_reference()["spec"]["params"], {"name": "x"}]}, "params"),
    "a default in place of a parameter": ({"params": of_reference()["spec"]["params"][:2]}, "params"),
    "no parameters": ({"params": None}, "params"),
    "another volume": (
        {"workspaces": [{"name": "out", "persistentVolumeClaim": {"claimName": "evil"}}]},
        "workspaces",
    ),
    "a volume more": ({"workspaces": [{"name": "x", "configMap": {"name": "code"}}]}, "workspaces"),
    "variables": ({"podTemplate": {"env": [{"name": "PYTHONPATH", "value": "/evil"}]}}, "podTemplate"),
    "volumes": ({"podTemplate": {"volumes": [SECRET, {"name": "x"}]}}, "podTemplate"),
    "another node": ({"podTemplate": {"nodeSelector": {"evil": "yes"}}}, "podTemplate"),
}


@pytest.mark.parametrize("case", FORGED)
def test_what_somebody_else_makes_is_not(case: str) -> None:
    changed, field = FORGED[case]
    forged = of_reference()
    forged["spec"] |= changed
    assert difference(forged, RUN) == field


@pytest.mark.parametrize(
    "owners",
    [None, [{**OWNER, "controller": False}], [{**OWNER, "uid": "of-an-earlier-run"}]],
    ids=["by its name alone", "no controller", "of an earlier run of the name"],
)
def test_what_its_run_does_not_control_is_not(owners: Any) -> None:
    adopted = of_reference()
    adopted["metadata"]["ownerReferences"] = owners
    assert difference(adopted, RUN) == "owner"


@pytest.mark.parametrize("listed", ["by name", "gone", "own"])
def test_the_results_of_a_run_may_be_copies_of_what_it_does_not_control(listed: str) -> None:
    adopted = written_in()
    if listed == "by name":
        del adopted["metadata"]["ownerReferences"]
    there = [of_reference(), *([adopted] if listed != "gone" else [])]
    own, problem = believed(RUN, there)
    assert own == (there if listed == "own" else there[:1])
    assert ("victim-inline" in problem) is (listed != "own")


def test_a_task_that_the_pipeline_does_not_have_is_of_no_run() -> None:
    unnamed = deepcopy(RUN)
    unnamed["status"]["childReferences"][0].pop("pipelineTaskName")
    assert difference(of_reference(), unnamed) == "pipelineTask"
    assert difference(of_reference(), {**RUN, "status": {}}) == "pipelineTask"


@pytest.mark.parametrize(
    ("script", "same"),
    [
        ("run $(params.model) 8080 now", True),
        ("run $(params.model)  now", True),
        ("run $(params.model) now", False),
        ("run llama 8080 now", False),
        ("run $(params.model) 8080 now; evil", False),
        ("", False),
    ],
)
def test_a_script_has_text_of_others_only_where_the_pipeline_has_a_result(script: str, same: bool) -> None:
    forged = written_in()
    forged["spec"]["taskSpec"]["steps"][0]["script"] = script
    assert difference(forged, RUN) == ("" if same else "taskSpec")


def test_the_comparison_of_texts_takes_linear_time() -> None:
    template = "$(tasks.a.results.b)x" * 2000 + "end"
    began = process_time()
    assert not fits(template, "x" * 10**6)
    assert process_time() - began < 1
