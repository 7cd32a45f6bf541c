"""fournos minicluster list, logs and scale, and one explained."""

from __future__ import annotations

import json
from typing import Any

from fournos.cli.errors import Exit
from fournos.systems.miniclusters.names import COMPLETION_INDEX_LABEL, MINICLUSTER_LABEL
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NS, ago


def minicluster(name: str = "flux", phase: str = "Ready", **status: Any) -> dict[str, Any]:
    finished = {
        "type": "JobFinished",
        "status": "False",
        "reason": "Starting",
        "lastTransitionTime": ago(minutes=1),
    }
    return {
        "kind": "MiniCluster",
        "metadata": {
            "name": name,
            "namespace": NS,
            "uid": name,
            "resourceVersion": "1",
            "labels": {"kueue.x-k8s.io/queue-name": "hpc"},
            "creationTimestamp": ago(minutes=5),
        },
        "spec": {"size": 2, "containers": [{"image": "app"}]},
        "status": {
            "phase": phase,
            "ready": 2,
            "maximumSize": 4,
            "message": "All 2 brokers are up",
            "conditions": [finished],
            **status,
        }
        if phase
        else {},
    }


def pod(rank: int, *, name: str = "flux") -> dict[str, Any]:
    labels = {MINICLUSTER_LABEL: name, COMPLETION_INDEX_LABEL: str(rank)}
    return {
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-{rank}",
            "namespace": NS,
            "uid": f"p{rank}",
            "labels": labels,
            "creationTimestamp": ago(minutes=4),
        },
        "spec": {"nodeName": f"node-{rank}"},
        "status": {"phase": "Running"},
    }


def workload() -> dict[str, Any]:
    owner = {"kind": "MiniCluster", "name": "flux", "uid": "flux", "controller": True}
    return {
        "kind": "Workload",
        "metadata": {
            "name": "minicluster-flux",
            "namespace": NS,
            "uid": "w",
            "creationTimestamp": ago(minutes=5),
            "ownerReferences": [owner],
        },
        "spec": {"queueName": "hpc", "podSets": []},
        "status": {},
    }


def shown(*words: str, api: Api) -> str:
    result = Program(api)("minicluster", *words)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_at_a_glance() -> None:
    over = minicluster("old", "Finished", exitCode=3, ready=0, message="exit code 3")
    api = Api(minicluster(), over, minicluster("new", ""))
    lines = shown("list", api=api).splitlines()
    assert lines[0].split() == ["NAME", "PHASE", "SIZE", "READY", "EXIT", "AGE", "RAN", "MESSAGE"]
    assert lines[1].split()[:6] == ["flux", "Ready", "2", "2", "-", "5m"]
    assert lines[2].split()[:5] == ["new", "Waiting", "2", "0", "-"]
    assert lines[3].split()[:5] == ["old", "Finished", "2", "0", "3"]
    wide = shown("list", "-o", "wide", "--phase", "ready", api=api)
    assert "hpc" in wide and "old" not in wide


def test_one_explained() -> None:
    api = Api(minicluster(), workload(), pod(1), pod(0))
    text = Program(api)("explain", "minicluster/flux").stdout
    for told in ("flux is Ready: All 2 brokers are up", "2 of at most 4", "minicluster-flux", "JobFinished"):
        assert told in text, text
    assert text.index("node-0") < text.index("node-1")
    found = json.loads(Program(api)("explain", "MiniCluster/flux", "-o", "json").stdout)
    assert (found["phase"], found["verdict"]) == ("Ready", "flux is Ready: All 2 brokers are up")


def test_logs_are_the_lead_s_or_those_of_a_rank() -> None:
    api = Api(minicluster(), pod(0), pod(1))
    api.log_lines = {("flux-0", "flux"): ["hello world"], ("flux-1", "db"): ["other"]}
    assert shown("logs", "flux", api=api) == "[rank 0] hello world\n"
    assert shown("logs", "flux", "--rank", "1", "-c", "db", api=api) == "[rank 1] other\n"
    missing = Program(api)("minicluster", "logs", "flux", "--rank", "7")
    assert missing.exit_code == Exit.NOT_FOUND and "no pod of rank 7" in missing.stderr


def test_scale_asks_for_a_size_that_can_be() -> None:
    api = Api(minicluster(), minicluster("old", "Finished"))
    assert "3 pods asked for" in shown("scale", "flux", "3", api=api)
    metadata = {"uid": "flux", "resourceVersion": "1"}
    assert api.writes == [("patch", f"{NS}/flux", {"metadata": metadata, "spec": {"size": 3}})]
    refused = Program(api)("minicluster", "scale", "flux", "9")
    assert refused.exit_code == Exit.USAGE and "choose at most 4" in refused.stderr
    assert Program(api)("minicluster", "scale", "old", "2").exit_code == Exit.FINISHED
    assert len(api.writes) == 1


def test_a_name_that_is_not_there() -> None:
    result = Program(Api(minicluster("sample")))("explain", "minicluster/sampl")
    assert result.exit_code == Exit.NOT_FOUND
    assert "did you mean sample?" in result.stderr
