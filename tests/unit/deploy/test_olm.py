"""bundle/ as it stands: the rules of OLM's validators, of operator-sdk and of opm, which are not run here."""

from __future__ import annotations

import base64
import copy
import gzip
import json
import re
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from xml.etree import ElementTree

import pytest
import yaml

from dev.olm import NOT_RELEASED, created, stale
from dev.olm_csv import FEATURES, words
from dev.olm_objects import NAMESPACE
from fournos.engine.api.validate import structural_violations
from fournos.systems.jobs.rules import check_manifest as check_job
from fournos.systems.miniclusters.rules import check_manifest as check_minicluster
from fournos.systems.schedules.rules import check_manifest as check_schedule
from tests.unit.deploy.olm_bundle import (
    BUNDLE,
    ROOT,
    annotations,
    crd_of,
    csv,
    deployments,
    examples,
    of,
    spec,
)

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
SEMVER = re.compile(r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$")
CSV_NAME = re.compile(r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$")
CAPABILITIES = {"Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"}
CATEGORIES = {
    "AI/Machine Learning", "Application Runtime", "Big Data", "Cloud Provider", "Database", "Developer Tools",
    "Integration & Delivery", "Logging & Tracing", "Modernization & Migration", "Monitoring", "Networking",
    "Observability", "OpenShift Optional", "Security", "Storage", "Streaming & Messaging",
}  # fmt: skip
# --- the ClusterServiceVersion -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field",
    ["displayName", "description", "version", "maturity", "minKubeVersion", "keywords", "provider", "links",
     "icon", "installModes", "nativeAPIs", "customresourcedefinitions", "install", "relatedImages"],
)  # fmt: skip
def test_a_field_is_filled_in(field: str) -> None:
    assert spec()[field]


def test_names_and_versions() -> None:
    assert csv()["metadata"]["name"] == f"fournos.v{spec()['version']}"
    assert CSV_NAME.match(csv()["metadata"]["name"]), "it is a label's value, too"
    assert "namespace" not in csv()["metadata"]
    assert spec()["version"] == VERSION
    for version in (spec()["version"], spec()["minKubeVersion"]):
        assert SEMVER.match(version), version


def test_it_upgrades_from_every_earlier_version() -> None:
    assert annotations()["olm.skipRange"] == f"<{VERSION}"
    assert spec().get("replaces") != csv()["metadata"]["name"], "it would replace itself"


def test_annotations_of_the_catalog() -> None:
    found = annotations()
    assert found["capabilities"] in CAPABILITIES
    assert {name.strip() for name in found["categories"].split(",")} <= CATEGORIES
    assert found["operatorframework.io/suggested-namespace"] == NAMESPACE
    assert 10 < len(found["description"]) <= 135, "the console cuts longer ones"
    assert re.match(r"^\d{4}-\d\d-\d\dT00:00:00Z$", found["createdAt"])
    assert all(isinstance(value, str) for value in found.values())
    features = {name: value for name, value in found.items() if name.startswith("features.operators.")}
    assert {name.rpartition("/")[2] for name in features} == FEATURES.keys()
    assert set(features.values()) <= {"true", "false"}


def test_it_is_not_called_ready_for_closed_networks_while_images_are_named_by_tag() -> None:
    by_digest = all("@sha256:" in image["image"] for image in spec()["relatedImages"])
    assert (annotations()["features.operators.openshift.io/disconnected"] == "true") <= by_digest


def test_links_and_provider_have_addresses() -> None:
    assert spec()["provider"]["name"]
    for link in (*spec()["links"], spec()["provider"]):
        assert link["name"] and urlparse(link["url"]).scheme == "https"
    for maintainer in spec().get("maintainers", ()):
        assert maintainer["name"] and "@" in maintainer["email"]


def test_the_icon_is_an_svg() -> None:
    (icon,) = spec()["icon"]
    assert icon["mediatype"] == "image/svg+xml"
    root = ElementTree.fromstring(base64.b64decode(icon["base64data"], validate=True))
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and len(root) > 0


def test_install_modes() -> None:
    modes = {mode["type"]: mode["supported"] for mode in spec()["installModes"]}
    assert len(modes) == len(spec()["installModes"]) == 4
    assert [mode for mode, supported in modes.items() if supported] == ["AllNamespaces"]


KINDS = ("FournosJob", "FournosSchedule", "FournosCluster", "AppWrapper", "MiniCluster")


# --- kinds and examples -----------------------------------------------------------------------------------


def test_each_owned_kind_has_its_crd_and_no_crd_is_left_over() -> None:
    owned = spec()["customresourcedefinitions"]["owned"]
    served = {
        (item["metadata"]["name"], version["name"], item["spec"]["names"]["kind"])
        for item in of("CustomResourceDefinition")
        for version in item["spec"]["versions"]
    }
    assert {(kind["name"], kind["version"], kind["kind"]) for kind in owned} == served
    assert {kind["kind"] for kind in owned} == set(KINDS) and len(owned) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_an_owned_kind_is_described(kind: str) -> None:
    (owned,) = (item for item in spec()["customresourcedefinitions"]["owned"] if item["kind"] == kind)
    assert owned["displayName"] and len(owned["description"]) > 20 and owned["resources"]
    (version,) = crd_of(kind)["spec"]["versions"]
    for part in ("spec", "status"):
        fields = version["schema"]["openAPIV3Schema"]["properties"][part]["properties"]
        descriptors = owned[f"{part}Descriptors"]
        assert [one["path"] for one in descriptors] == list(fields), "operator-sdk scorecard asks for all"
        assert all(one["displayName"] and one["description"] for one in descriptors)


def test_each_owned_kind_has_one_example() -> None:
    owned = sorted(
        (f"{kind['name'].partition('.')[2]}/{kind['version']}", kind["kind"])
        for kind in spec()["customresourcedefinitions"]["owned"]
    )
    assert sorted((item["apiVersion"], item["kind"]) for item in examples()) == owned
    assert [item for item in examples() if "namespace" in item["metadata"]] == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_is_valid(kind: str) -> None:
    (example,) = (item for item in examples() if item["kind"] == kind)
    (version,) = crd_of(kind)["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    assert list(structural_violations(schema, example)) == []
    assert "null" not in json.dumps(example), "the check leaves nulls out, an API server may refuse them"
    rules = {
        "FournosJob": check_job,
        "FournosSchedule": check_schedule,
        "MiniCluster": check_minicluster,
    }.get(kind)
    assert rules is None or rules(example) == []
    assert example["metadata"]["name"] and example["spec"]


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("FournosJob", {"pipelines": "hello"}, "spec.pipelines: unknown field: did you mean pipeline?"),
        ("FournosJob", {"exclusive": "no"}, "spec.exclusive: write true or false"),
        ("FournosSchedule", {"timeZone": None}, "spec.timeZone: write it, it is required"),
        ("FournosCluster", {"kubeconfigSecret": None}, "spec.kubeconfigSecret: write it, it is required"),
        ("AppWrapper", {"components": [{}]}, "spec.components[0].template: write it, it is required"),
        ("MiniCluster", {"size": True}, "spec.size: write a whole number"),
        (
            "MiniCluster",
            {"containers": [{"name": "a" * 254}]},
            "spec.containers[0].name: write at most 253 characters",
        ),
        ("FournosSchedule", {"schedules": []}, "spec.schedules: write at least 1 item"),
    ],
)
def test_a_wrong_example_would_be_seen(kind: str, change: dict[str, Any], message: str) -> None:
    (example,) = (item for item in copy.deepcopy(examples()) if item["kind"] == kind)
    (version,) = crd_of(kind)["spec"]["versions"]
    example["spec"] |= change
    wrong = structural_violations(version["schema"]["openAPIV3Schema"], example)
    assert message in [str(violation) for violation in wrong]


# --- Deployments, rights, images ---------------------------------------------------------------------------


@pytest.mark.parametrize("deployment", deployments(), ids=lambda item: str(item["name"]))
def test_a_deployment(deployment: dict[str, Any]) -> None:
    pod = deployment["spec"]["template"]["spec"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    granted = spec()["install"]["spec"]["clusterPermissions"]
    (rights,) = (item for item in granted if item["serviceAccountName"] == pod["serviceAccountName"])
    assert rights["rules"] and all(rule["verbs"] for rule in rights["rules"])
    related = {image["image"] for image in spec()["relatedImages"]}
    for container in pod["containers"]:
        assert container["image"] in related
        assert container["resources"]["requests"].keys() >= {"cpu", "memory"}


def test_restricted_v2_takes_the_pods() -> None:
    """It requires these, and gives each namespace users of its own: a fixed one would be refused."""
    for deployment in deployments():
        pod = deployment["spec"]["template"]["spec"]
        assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}
        assert {kind for volume in pod["volumes"] for kind in volume if kind != "name"} <= {
            "configMap", "emptyDir", "projected", "secret",
        }  # fmt: skip
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False and context["capabilities"] == {
                "drop": ["ALL"]
            }
            assert not context.keys() & {"runAsUser", "runAsGroup", "privileged", "seLinuxOptions"}


def test_images() -> None:
    images = [image["image"] for image in spec()["relatedImages"]]
    assert annotations()["containerImage"] in images and len(set(images)) == len(images)
    for image in images:
        assert re.match(r"^[a-z0-9.-]+/[a-z0-9._/-]+(:[\w.-]+|@sha256:[0-9a-f]{64})$", image), image


# --- the image of the bundle -------------------------------------------------------------------------------


def test_labels_of_the_image_are_the_annotations() -> None:
    text = (BUNDLE / "Containerfile").read_text()
    labels = dict(re.findall(r"^LABEL (\S+)=(\S+)$", text, re.MULTILINE))
    found = yaml.safe_load((BUNDLE / "metadata" / "annotations.yaml").read_text())["annotations"]
    assert labels == found
    prefix = "operators.operatorframework.io.bundle"
    assert found[f"{prefix}.mediatype.v1"] == "registry+v1"
    assert found[f"{prefix}.channel.default.v1"] in found[f"{prefix}.channels.v1"].split(",")
    copied = dict(re.findall(r"^COPY (\S+) /(\S+)/$", text, re.MULTILINE))
    assert {path: target for path, target in copied.items() if path != target} == {}
    for path in copied:
        assert (BUNDLE / path).is_dir()
    for name in ("bundle.manifests", "bundle.metadata", "test.config"):
        assert found[f"operators.operatorframework.io.{name}.v1"].rstrip("/") in copied
    assert "prerequisites" not in text


def test_the_scorecard_has_the_tests_of_both_suites() -> None:
    config = yaml.safe_load((BUNDLE / "tests" / "scorecard" / "config.yaml").read_text())
    assert config["kind"] == "Configuration" and config["apiVersion"].startswith(
        "scorecard.operatorframework.io/"
    )
    tests = [test for stage in config["stages"] for test in stage["tests"]]
    assert {test["labels"]["suite"] for test in tests} == {"basic", "olm"}
    for test in tests:
        program, name = test["entrypoint"]
        assert (program, f"{name}-test") == ("scorecard-test", test["labels"]["test"])


def test_it_fits_into_a_config_map() -> None:
    """OLM keeps the whole bundle in one, packed."""
    paths = [path for folder in ("manifests", "metadata") for path in (BUNDLE / folder).iterdir()]
    assert len(gzip.compress(b"".join(path.read_bytes() for path in paths))) < 0.85 * 2**20


# --- the generator -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changelog", "expected"),
    [
        ("## [Unreleased]\n## [1.2.3] - 2031-05-06\n## [1.2.2] - 2030-01-01\n", "2031-05-06"),
        ("## [Unreleased]\n## [1.2.2] - 2030-01-01\n", NOT_RELEASED),
        ("see ## [1.2.3] - 2031-05-06\n## [1a2b3] - 2031-05-06\n", NOT_RELEASED),
    ],
)
def test_a_version_has_the_day_of_its_release(changelog: str, expected: str) -> None:
    assert created(changelog, "1.2.3") == expected


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("owner", "Owner"),
        ("dashboardURL", "Dashboard URL"),
        ("gpuDiscoveryInterval", "Gpu discovery interval"),
        ("ttl", "Ttl"),
        ("URLPrefix", "URL prefix"),
    ],
)
def test_fields_as_words(field: str, expected: str) -> None:
    assert words(field) == expected


def test_a_file_that_is_not_generated_is_named(tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    for name in ("manifests/made.yaml", "manifests/old.yaml", "README.md"):
        (tmp_path / name).write_text("")
    assert stale({"manifests/made.yaml"}, tmp_path) == [str(tmp_path / "manifests" / "old.yaml")]
