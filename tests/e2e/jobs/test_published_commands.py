"""The commands that the Fournos README publishes, run as they are written.

`oc` is kubectl here.  Left out, since they need OpenShift or an image registry: ImageStreams, Builds and
BuildRuns; the operator's image is the one of this checkout.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.images import KUBECTL_IMAGE
from tests.e2e.hub import ROOT, Hub

ENVSUBST = f"""#!{sys.executable}
import os, string, sys
sys.stdout.write(string.Template(sys.stdin.read()).safe_substitute(os.environ))
"""
"""A stand-in for gettext's program where the machine has none."""

PREPARE = """
oc create ns $FOURNOS_NAMESPACE
oc label ns/$FOURNOS_NAMESPACE fournos.dev/queue-access=true
oc get ns $FOURNOS_SECRETS_NAMESPACE || oc create ns $FOURNOS_SECRETS_NAMESPACE
"""

DEPLOY = """
oc apply -n $FOURNOS_NAMESPACE -f manifests/crd.yaml
for rbac_file in manifests/rbac/*.yaml; do
  cat $rbac_file | NAMESPACE=$FOURNOS_NAMESPACE envsubst | oc apply -f- -n $FOURNOS_NAMESPACE
done
cat manifests/secrets-ns-rbac.yaml \\
  | NAMESPACE=$FOURNOS_NAMESPACE SECRETS_NAMESPACE=$FOURNOS_SECRETS_NAMESPACE envsubst \\
  | oc apply -f-
oc apply -n $FOURNOS_NAMESPACE -f manifests/deployment.yaml
"""

CLUSTER = """
oc create secret generic kubeconfig-${CLUSTER_NAME} \\
  --from-file=kubeconfig=$KUBECONFIG_OF_THE_TARGET \\
  -n $FOURNOS_SECRETS_NAMESPACE
oc apply -f config/kueue-config.yaml
"""

WORKFLOWS = """
for wf_file in config/forge/workflows/*.yaml; do
cat "$wf_file" | NAMESPACE=$FOURNOS_NAMESPACE envsubst '$NAMESPACE' | oc apply -f- -n $FOURNOS_NAMESPACE
done
"""


@pytest.fixture(scope="module")
def own(
    hub: Hub, operator_image_tag: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Hub, Path]]:
    """A namespace without any preparation, and a directory with `oc` for PATH."""
    programs = tmp_path_factory.mktemp("bin")
    kubectl = shutil.which(hub.kubectl_words[0])
    assert kubectl
    (programs / "oc").symlink_to(kubectl)
    if not shutil.which("envsubst"):
        (programs / "envsubst").write_text(ENVSUBST)
        (programs / "envsubst").chmod(0o755)
    suffix = uuid.uuid4().hex[:6]
    here = replace(hub, namespace=f"fournos-{suffix}-dev", secrets_namespace=f"psap-secrets-{suffix}")
    yield here, programs
    for namespace in (here.namespace, here.secrets_namespace):
        hub.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=false")
    hub.kubectl(
        "delete", "clusterrolebinding", f"fournos-queue-reader-{here.namespace}", "--ignore-not-found"
    )


def of_page(page: str, heading: str) -> list[str]:
    """The bash blocks below a heading of a page of this repository."""
    text = (ROOT / page).read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def shell(own: tuple[Hub, Path], script: str, *, cwd: Path = ROOT, **variables: str) -> str:
    """What a person would see; the working directory is the repository's root."""
    hub, programs = own
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "KUBECONFIG": str(hub.kubeconfig),
        "FOURNOS_NAMESPACE": hub.namespace,
        "FOURNOS_SECRETS_NAMESPACE": hub.secrets_namespace,
        **variables,
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_from_nothing_to_a_verified_cluster(own: tuple[Hub, Path], operator_image_tag: str) -> None:
    hub, _ = own
    shell(own, PREPARE)
    shell(own, DEPLOY)
    hub.run("set", "image", "deployment/fournos", f"fournos={operator_image_tag}")
    secrets = f"FOURNOS_SECRETS_NAMESPACE={hub.secrets_namespace}"
    hub.run("set", "env", "deployment/fournos", secrets)
    hub.run("rollout", "status", "deployment/fournos", "--timeout=180s")
    shell(own, CLUSTER, CLUSTER_NAME="cluster-1", KUBECONFIG_OF_THE_TARGET=str(hub.kubeconfig))
    hub.run("apply", "-f", str(ROOT / "config/fournos-validation/pipeline.yaml"))
    created = shell(
        own,
        "oc create -n $FOURNOS_NAMESPACE -o name "
        "-f config/fournos-validation/samples/test-connectivity-job.yaml",
    )
    name = created.strip().rpartition("/")[2]
    assert hub.wait(name)["phase"] == "Succeeded"
    log = hub.run("logs", "-l", f"fournos.dev/job-name={name},tekton.dev/pipelineTask", "--all-containers")
    assert "Kubernetes control plane" in log
    _with_another_image(hub, hub.list("pipelineruns", selector=f"fournos.dev/job-name={name}")[0])


def _with_another_image(hub: Hub, run: Mapping[str, Any]) -> None:
    """As the operator passes FOURNOS_VALIDATION_IMAGE; and a clusterless job, which looks at nothing."""
    hub.submit(
        "nowhere",
        pipeline="fournos-validate-only",
        cluster=None,
        clusterless=True,
        executionEngine={"none": {}},
    )
    params = [*run["spec"]["params"], {"name": "validation-image", "value": KUBECTL_IMAGE}]
    again = {
        "apiVersion": run["apiVersion"],
        "kind": "PipelineRun",
        "metadata": {"name": "again"},
        "spec": {"pipelineRef": run["spec"]["pipelineRef"], "params": params},
    }
    hub.run("create", "-f", "-", stdin=json.dumps(again))
    hub.run("wait", "--for=condition=Succeeded", "pipelinerun/again", "--timeout=180s")
    (pod,) = hub.list("pods", selector="tekton.dev/pipelineRun=again")
    assert [one["image"] for one in pod["spec"]["containers"]] == [KUBECTL_IMAGE]
    assert hub.wait("nowhere")["phase"] == "Succeeded"
    assert hub.task_pods("nowhere") == {}


def test_the_commands_for_one_namespace(own: tuple[Hub, Path], operator_image_tag: str) -> None:
    """In a namespace of its own; the name of the secrets namespace is the test's."""
    deploy, *_ = of_page("docs/install.md", "One namespace")
    suffix = uuid.uuid4().hex[:6]
    hub = replace(own[0], namespace=f"fournos-{suffix}-dev", secrets_namespace=f"psap-readme-{suffix}")
    try:
        shell(own, deploy.replace("psap-secrets", hub.secrets_namespace), USER=suffix)
        hub.run("set", "image", "deployment/fournos", f"fournos={operator_image_tag}")
        hub.run("rollout", "status", "deployment/fournos", "--timeout=180s")
    finally:
        for namespace in (hub.namespace, hub.secrets_namespace):
            hub.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=false")
        hub.kubectl(
            "delete", "clusterrolebinding", f"fournos-queue-reader-{hub.namespace}", "--ignore-not-found"
        )


def test_the_commands_of_our_own_readme(
    own: tuple[Hub, Path], operator_image_tag: str, tmp_path: Path
) -> None:
    """With other namespaces, in a copy of `deploy`: a Secret is used once its list has the jobs."""
    (install,) = of_page("README.md", "On your cluster")
    deploy = install.partition("pip install")[0]
    (verify,) = of_page("docs/install.md", "A target cluster")
    suffix = uuid.uuid4().hex[:6]
    jobs, secrets, operator = (f"readme-{suffix}-{name}" for name in ("jobs", "secrets", "operator"))
    hub = replace(own[0], namespace=jobs, secrets_namespace=secrets, operator_namespace=operator)
    for folder in ("deploy", "manifests", "config"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    names = tmp_path / "deploy" / "names.yaml"
    data = {"operator": operator, "jobs": jobs, "secrets": secrets}
    names.write_text(yaml.safe_dump({**yaml.safe_load(names.read_text()), "data": data}))
    secret, *commands = re.split(r"\n(?=kubectl)", verify.strip())
    listed, pipeline, job, _ = (
        command.replace("psap-secrets", secrets)
        .replace("=fournos", f"={jobs}")
        .replace("-n fournos ", f"-n {jobs} ")
        for command in commands
    )
    try:
        shell(own, deploy, cwd=tmp_path)
        hub.operator.run("set", "image", "deployment/fournos", f"fournos={operator_image_tag}")
        hub.operator.run("rollout", "status", "deployment/fournos", "--timeout=180s")
        made = secret.replace("psap-secrets", secrets).replace(
            "/path/to/auth/kubeconfig", str(hub.kubeconfig)
        )
        shell(own, made, CLUSTER_NAME="cluster-1")
        shell(own, pipeline, cwd=tmp_path)
        for command, phase in (("true", "Failed"), (listed, "Succeeded")):
            shell(own, command, CLUSTER_NAME="cluster-1")
            created = shell(own, f"{job} -o name", cwd=tmp_path)
            status = hub.wait(created.strip().rpartition("/")[2])
            assert status["phase"] == phase, status
            assert ("lets no job in" in status["message"]) == (phase == "Failed"), status
    finally:
        hub.kubectl("delete", "validatingwebhookconfiguration", f"fournos-jobs-{jobs}", "--ignore-not-found")
        for namespace in (jobs, secrets, operator):
            hub.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=false")
        hub.kubectl("delete", "clusterrolebinding", f"fournos-queue-reader-{jobs}", "--ignore-not-found")


def test_the_engine_s_assets_apply_and_its_sample_is_accepted(own: tuple[Hub, Path]) -> None:
    hub, _ = own
    shell(own, WORKFLOWS)
    created = shell(own, "oc create -f config/forge/samples/job-full.yaml -n $FOURNOS_NAMESPACE -o name")
    name = created.strip().rpartition("/")[2]
    assert hub.wait(name, ["Resolving"])["phase"] == "Resolving"
    shell(
        own,
        f"""oc get FournosJobs -n $FOURNOS_NAMESPACE
oc patch FournosJob {name} -n $FOURNOS_NAMESPACE --type merge -p '{{"spec":{{"shutdown":"Stop"}}}}'
oc patch FournosJob {name} -n $FOURNOS_NAMESPACE --type merge -p '{{"spec":{{"shutdown":"Terminate"}}}}'""",
    )
    assert hub.wait(name)["phase"] == "Stopped"
    shell(own, f"oc delete FournosJob -n $FOURNOS_NAMESPACE {name}")
    assert not hub.exists("fournosjob", name)
