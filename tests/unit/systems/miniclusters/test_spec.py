"""The spec as the builders read it: users' text as shell code, each field, and the page's examples."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from devcluster import manifests
from fournos.api.minicluster_container import Container
from fournos.systems.miniclusters.rules import check_manifest
from fournos.systems.miniclusters.spec import quote, unescaped, words
from tests.unit.cli.api import Api, Program
from tests.unit.systems.miniclusters.objects import made, mounts, pod, scripts
from tests.unit.systems.miniclusters.stage import Sandbox


def read(text: str) -> list[str]:
    """Returns the arguments as bash splits them."""
    code = f"set -f\na=({words(text)})\n((${{#a[@]}} == 0)) || printf '%s\\0' \"${{a[@]}}\"\n"
    found = subprocess.run(["bash", "-c", code], capture_output=True, check=False, cwd="/")
    assert found.returncode == 0, (code, found.stderr)
    return found.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("lmp -v x 2 -in in.reaxc.hns", ["lmp", "-v", "x", "2", "-in", "in.reaxc.hns"]),
        ("sh -c 'a && b'", ["sh", "-c", "a && b"]),
        ('sh -c "a \\"b\\" c"', ["sh", "-c", 'a "b" c']),
        ("one\n  two\\\n three", ["one", "two", "three"]),
        ("a && b; c | d > e &", ["a", "&&", "b;", "c", "|", "d", ">", "e", "&"]),
        ("echo it's", ["echo", "it's"]),
        ('echo "open', ["echo", '"open']),
        ("echo $(printf '%s' 'x y')", ["echo", "x", "y"]),
        ("echo `echo x`", ["echo", "x"]),
        ('echo "$(echo "x )")"', ["echo", "x )"]),
        ("echo ${NONE:-a b}", ["echo", "a", "b"]),
        ("echo $((1+1))", ["echo", "2"]),
        ("echo $(open", ["echo", "$(open"]),
        ("echo \\$HOME # no comment", ["echo", "$HOME", "#", "no", "comment"]),
        ("{a,b} ~ ! (x)", ["{a,b}", "~", "!", "(x)"]),
        ("[ -e x ] a[1]=b", ["[", "-e", "x", "]", "a[1]=b"]),
        ("echo ${A:-$(echo '}')}", ["echo", "}"]),
        ("$[1 $'a' 100$", ["$[1", "$a", "100$"]),
        ("\\", ["\\"]),
        ("", []),
    ],
)
def test_words(text: str, wanted: list[str]) -> None:
    assert read(text) == wanted


_HARD = st.text(alphabet=" \nab'\"\\$(){}[]<>;&|#!~*?=,", max_size=12)
_ANY = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1)


@settings(max_examples=100)
@given(_HARD.filter(lambda text: "$(" not in text and "${" not in text))
def test_no_text_breaks_the_script(text: str) -> None:
    """What is within $(…) and ${…} is the user's own code."""
    code = f"a=({words(text)})\necho still here\n"
    found = subprocess.run(["bash", "-n"], input=code, capture_output=True, check=False, text=True)
    assert (found.returncode, found.stderr) == (0, ""), code


@settings(max_examples=50)
@given(st.lists(_ANY, max_size=4))
def test_quoted_words_arrive_as_they_are(texts: list[str]) -> None:
    command = " ".join(map(quote, texts))
    assert shlex.split(command) == texts
    assert read(command) == texts


def test_escapes_are_those_of_a_here_document() -> None:
    assert unescaped("\\$A \\`b\\` \\\\n \\x a\\\nb $C") == "$A `b` \\n \\x ab $C"


# --- fields --------------------------------------------------------------------------------------------
# Fields with one effect each: where it shows.

SIDE = {"name": "side", "image": "side:1", "runFlux": False}
MAIN = {"image": "app:1", "command": "hostname"}


def services_pod(**spec: Any) -> dict[str, Any]:
    return made(**spec)["Pod/flux-sample-services"]


def test_annotations_of_the_pods() -> None:
    annotations = {"pod-annotation-a": "dinosaur-a"}
    spec: dict[str, Any] = {"pod": {"annotations": annotations}, "services": [SIDE]}
    assert made(**spec)["Job/flux-sample"]["spec"]["template"]["metadata"]["annotations"] == annotations
    assert services_pod(**spec)["metadata"]["annotations"] == annotations


def test_the_runtime_class_is_that_of_all_pods() -> None:
    spec: dict[str, Any] = {"pod": {"runtimeClassName": "gvisor"}, "services": [SIDE]}
    assert pod(**spec)["runtimeClassName"] == "gvisor"
    assert services_pod(**spec)["spec"]["runtimeClassName"] == "gvisor"
    assert "runtimeClassName" not in pod()


def test_processes_are_shared_if_asked_for() -> None:
    assert pod(shareProcessNamespace=True)["shareProcessNamespace"] is True
    assert pod()["shareProcessNamespace"] is False


def test_claims_of_resources() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    found = pod({"resources": {"claims": [{"name": "gpu", "request": "a"}]}}, resourceClaims=claims)
    assert found["resourceClaims"] == claims
    assert found["containers"][0]["resources"]["claims"] == [{"name": "gpu", "request": "a"}]


def test_the_services_pod_pulls_with_its_own_secrets() -> None:
    services = [{**SIDE, "imagePullSecret": "one"}, {**SIDE, "name": "more", "imagePullSecret": "one"}]
    assert services_pod(services=services)["spec"]["imagePullSecrets"] == [{"name": "one"}]
    assert "imagePullSecrets" not in services_pod(services=[SIDE])["spec"]


@pytest.mark.parametrize("where", ["containers", "services"])
def test_hooks_beside_flux(where: str) -> None:
    one = {**SIDE, "lifeCycle": {"postStartExec": "echo up", "preStopExec": "echo bye"}}
    if where == "containers":
        found = pod(containers=[MAIN, one])["containers"][1]
    else:
        found = services_pod(services=[one])["spec"]["containers"][0]
    assert {name: hook["exec"]["command"][-1] for name, hook in found["lifecycle"].items()} == {
        "postStart": "echo up",
        "preStop": "echo bye",
    }


@pytest.mark.parametrize("read_only", [False, True])
def test_a_volume_of_a_driver_may_be_read_only(read_only: bool) -> None:
    volume = {"path": "/d", "csiDriver": "driver", "readOnly": read_only}
    (found,) = [one for one in pod({"volumes": {"data": volume}})["volumes"] if one["name"] == "data"]
    assert found["csi"]["readOnly"] is read_only


def test_a_volume_with_a_path_alone_is_an_empty_directory() -> None:
    found = pod({"volumes": {"data": {"path": "/tmp/out"}}})
    assert {"name": "data", "emptyDir": {}} in found["volumes"]
    assert mounts(found["containers"][0])["/tmp/out"] == "data"


def test_munge_is_mounted_where_flux_runs() -> None:
    found = pod(containers=[MAIN, SIDE], flux={"mungeSecret": "munge"})
    (volume,) = [one for one in found["volumes"] if one["name"] == "flux-munge"]
    assert volume["secret"]["secretName"] == "munge"
    assert [("/etc/munge" in mounts(one)) for one in found["containers"]] == [True, False]
    assert "/etc/munge" not in mounts(pod()["containers"][0])


def test_the_image_is_the_published_one_where_an_old_manifest_names_none() -> None:
    """The rule requires one at creation; stored objects are not affected."""
    assert Container().image == "ghcr.io/rse-ops/accounting:app-latest"
    assert pod({"image": "app:1"})["containers"][0]["image"] == "app:1"


# --- the environment of Flux ----------------------------------------------------------------------------


def _view(stage: Sandbox, simple: bool, python: str | None) -> tuple[str, str]:
    """PYTHONPATH and FLUX_RC_EXTRA with a view."""
    packages = stage.mount / "view" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True, exist_ok=True)
    container = {"mountPath": str(stage.mount), **({"pythonPath": python} if python else {})}
    stage.put(
        {"commands": {"pre": 'echo "$PYTHONPATH|${FLUX_RC_EXTRA:-}"'}},
        flux={"container": container, "scheduler": {"simple": simple}},
    )
    first = stage.run().out.splitlines()[0]
    (stage.mount / "flux-operator-result").unlink()
    python_path, _, rc_extra = first.partition("|")
    return python_path, rc_extra


def test_where_a_view_has_python_and_its_scheduler(stage: Sandbox) -> None:
    packages = f"{stage.mount}/view/lib/python3.11/site-packages"
    marks = f"{stage.mount}/flux-operator-rc"
    both = f"{stage.mount}/view/etc/flux/rc1.d:{marks}"
    assert _view(stage, simple=False, python=None) == (packages, both)
    assert _view(stage, simple=True, python="/opt/python") == ("/opt/python", marks)


@pytest.mark.parametrize("quiet", [False, True])
def test_a_quiet_batch_prints_nothing_of_its_own(quiet: bool) -> None:
    text = scripts({"batch": True, "command": "echo"}, logging={"quiet": quiet})["wait-0"]
    assert ("> /dev/null'" in text) is quiet


def test_without_a_socket_nothing_waits_for_one() -> None:
    text = scripts(containers=[MAIN, {**SIDE, "command": "echo"}], flux={"disableSocket": True})
    assert "wait_socket=false" in text["start-1"] and "local-uri" not in text["wait-0"]
    waiting = scripts(containers=[MAIN, {**SIDE, "command": "echo"}])
    assert "wait_socket=true" in waiting["start-1"] and "local-uri" in waiting["wait-0"]


def test_the_container_without_runflux_runs_flux_if_the_others_do_not() -> None:
    """The page: runFlux is true by default."""
    found = pod(containers=[SIDE, MAIN, {**SIDE, "name": "more", "ports": [80]}])
    assert [one["name"] for one in found["containers"]] == ["side", "flux-sample", "more"]
    services = made(containers=[{**MAIN, "ports": [80]}, {**SIDE, "ports": [80]}])
    assert [name for name in services if name.startswith("Service/")] == ["Service/side"]


# --- documents -----------------------------------------------------------------------------------------
# Examples and samples are accepted, and can be rendered.

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "miniclusters.md").read_text()
SAMPLES = sorted(ROOT.glob("samples/minicluster*.yaml"))
EXAMPLES = [
    document
    for text in (*re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL),)
    for document in manifests.parse(text)
] + [
    document
    for path in SAMPLES
    for document in manifests.parse(path.read_text())
    if document["kind"] == "MiniCluster"
]
COMMANDS = [
    shlex.split(line)[1:] for line in re.findall(r"^fournos minicluster render .*$", PAGE, re.MULTILINE)
]


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda document: document["metadata"]["name"])
def test_an_example_is_accepted_and_rendered(document: Any, tmp_path: Path) -> None:
    assert check_manifest(document) == []
    (tmp_path / "example.yaml").write_text(yaml.safe_dump(document))
    result = Program(Api())("minicluster", "render", "-f", str(tmp_path / "example.yaml"))
    assert result.exit_code == 0
    kinds = [one["kind"] for one in manifests.parse(result.stdout)]
    assert kinds[:3] == ["Secret", "Service", "ConfigMap"]
    assert kinds[-1] == "Job"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_of_the_page_works(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert Program(Api())(*command).exit_code == 0


def test_the_page_and_the_samples_were_found() -> None:
    assert len(EXAMPLES) >= 8
    assert len(COMMANDS) >= 3
