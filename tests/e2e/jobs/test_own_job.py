"""The webhook own-job in a cluster: a pod's own token writes the job that the pod is of, and no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.e2e.hub import Hub, RefusedError

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"


class Engine:
    """A client with this token as its only credential."""

    def __init__(self, hub: Hub, folder: Path, token: str) -> None:
        config = yaml.safe_load(hub.kubeconfig.read_text())
        for user in config["users"]:
            user["user"] = {"token": token}
        path = folder / "engine.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        self.hub = Hub(path, hub.namespace)

    def writes(self, job: str, message: str) -> None:
        patch = json.dumps({"status": {"engineStatus": {"said": message}}})
        self.hub.run("patch", "fournosjob", job, "--subresource=status", "--type=merge", "-p", patch)

    def is_refused(self, job: str, why: str) -> None:
        with pytest.raises(RefusedError, match=why):
            self.writes(job, "forged")


def test_a_pod_s_token_writes_its_own_job_and_no_other(
    hub: Hub, slow: None, operator_in_cluster: None, tmp_path: Path
) -> None:
    own, other = hub.submit("own-mine"), hub.submit("own-other")
    for name in (own, other):
        hub.wait(name, ["Running"])
    pod = hub.until(lambda: running_pod(hub, own), lambda: f"no pod of {own} runs")
    engine = Engine(hub, tmp_path, hub.run("exec", pod, "--", "cat", TOKEN).strip())

    hub.until(lambda: answers(engine, own), lambda: "the webhook does not let a pod write its own job")
    assert hub.status(own)["engineStatus"] == {"said": "hello"}
    engine.is_refused(other, "may write the FournosJob of its own pod only")
    account = hub.run("create", "token", "default").strip()
    Engine(hub, tmp_path, account).is_refused(own, "the token is not a pod's")
    assert hub.status(own)["engineStatus"] == {"said": "hello"} and "engineStatus" not in hub.status(other)
    for name in (own, other):
        hub.shutdown(name, "Terminate")


def running_pod(hub: Hub, job: str) -> str:
    pods = hub.task_pods(job).values()
    return next((pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"), "")


def answers(engine: Engine, job: str) -> bool:
    """False while the new configuration is not served yet: then the API server refuses every caller."""
    try:
        engine.writes(job, "hello")
    except RefusedError as error:
        assert "failed calling webhook" in str(error), error
        return False
    return True
