"""The ClusterServiceVersion of the OLM bundle.  Pure.

It has no maintainers: an entry needs an e-mail address, and the project publishes none.  Nor has it
`replaces`: each version can follow any earlier one, which `olm.skipRange` says without a list of them.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dev.olm_objects import NAMESPACE, Division
from dev.release import SUMMARY
from dev.release_install import Document

MIN_KUBERNETES: Final = "1.30.0"
FEATURES: Final = {
    "disconnected": False,  # images are named by tag, not by digest
    "fips-compliant": False,  # the image's OpenSSL is not the validated one of RHEL
    "proxy-aware": False,  # API servers are reached directly; HTTPS_PROXY is not read
    "tls-profiles": False,  # the cluster's TLS profile is not read
    "token-auth-aws": False,
    "token-auth-azure": False,
    "token-auth-gcp": False,
    "cnf": False,
    "cni": False,
    "csi": False,
}
"""Infrastructure features that OpenShift's catalog filters by."""
DESCRIPTION: Final = """\
Fournos queues benchmark jobs, finds them a cluster, runs them there and reports back.
[Kueue](https://kueue.sigs.k8s.io/) decides when and where a job may run, and
[Tekton](https://tekton.dev/) runs it.

| kind | what |
|---|---|
| FournosJob | a benchmark job |
| FournosSchedule | a benchmark that comes back every night |
| FournosCluster | a cluster that jobs run on |
| AppWrapper | resources of any kind, queued as one |
| MiniCluster | a Flux cluster |

Two more operators queue PipelineRuns and kinds of your choice, and send jobs to other clusters by MultiKueue.

### Before the installation

- Kueue 0.15 or newer and Tekton Pipelines 0.44 or newer are installed.
- `bundle/prerequisites.yaml` of the same version is applied: what OLM cannot install, such as admission
  policies, webhook configurations and Roles. Without it the operators do not become ready.
- The operators are installed into the namespace `{namespace}`, which that file makes.

How to do it: {url}/blob/main/docs/openshift.md
"""


@dataclass(frozen=True)
class Kind:
    """An owned kind, as the console shows it."""

    crd: str
    resources: Sequence[tuple[str, str]]
    """Kind and version of the objects that the operator makes for one."""


KINDS: Final = (
    Kind("fournosjobs.fournos.dev", (("Workload", "v1beta2"), ("PipelineRun", "v1"), ("Job", "v1"))),
    Kind("fournosschedules.fournos.dev", (("FournosJob", "v1"),)),
    Kind("fournosclusters.fournos.dev", (("ResourceFlavor", "v1beta2"), ("ClusterQueue", "v1beta2"))),
    Kind("appwrappers.workload.codeflare.dev", (("Workload", "v1beta2"), ("Pod", "v1"), ("Job", "v1"))),
    Kind("miniclusters.flux-framework.org", (("Job", "v1"), ("ConfigMap", "v1"), ("Service", "v1"))),
)
"""The kinds, in the order in which the console lists them."""


@dataclass(frozen=True)
class Facts:
    """What the ClusterServiceVersion says of a version, besides its objects."""

    version: str
    image: str
    url: str
    """Of the repository of the sources."""
    created: str
    """Day of the release, YYYY-MM-DD."""
    samples: Sequence[Document]
    icon: bytes
    operand_images: Mapping[str, str]
    """Name → image that an operator puts into pods by default."""
    native_apis: Sequence[Mapping[str, str]]
    """Kinds of others, which must be served before OLM installs the bundle."""

    @property
    def name(self) -> str:
        return f"fournos.v{self.version}"


def service_version(facts: Facts, division: Division) -> Document:
    """Returns the ClusterServiceVersion."""
    crds = {
        item["metadata"]["name"]: item
        for item in division.bundled
        if item["kind"] == "CustomResourceDefinition"
    }
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": facts.name, "annotations": catalog_annotations(facts)},
        "spec": {
            "displayName": "Fournos",
            "description": DESCRIPTION.format(namespace=NAMESPACE, url=facts.url),
            "version": facts.version,
            "maturity": "alpha",
            "minKubeVersion": MIN_KUBERNETES,
            "keywords": ["benchmark", "gpu", "queue", "kueue", "tekton", "flux"],
            "provider": {"name": "openshift-psap", "url": facts.url},
            "links": [
                {"name": "Sources", "url": facts.url},
                {"name": "Documentation", "url": f"{facts.url}/tree/main/docs"},
            ],
            "icon": [
                {"base64data": base64.b64encode(facts.icon).decode(), "mediatype": "image/svg+xml"},
            ],
            "installModes": install_modes(),
            "nativeAPIs": [dict(api) for api in facts.native_apis],
            "customresourcedefinitions": {"owned": [owned(kind, crds[kind.crd]) for kind in KINDS]},
            "install": {"strategy": "deployment", "spec": install(division)},
            "relatedImages": [
                {"name": name, "image": image}
                for name, image in {"operator": facts.image, **facts.operand_images}.items()
            ],
        },
    }


def catalog_annotations(facts: Facts) -> dict[str, str]:
    return {
        "alm-examples": json.dumps(list(facts.samples), indent=2),
        "capabilities": "Basic Install",
        "categories": "Developer Tools, Integration & Delivery",
        "certified": "false",
        "containerImage": facts.image,
        "createdAt": f"{facts.created}T00:00:00Z",
        "description": SUMMARY,
        **{f"features.operators.openshift.io/{name}": str(on).lower() for name, on in FEATURES.items()},
        "olm.skipRange": f"<{facts.version}",
        "operatorframework.io/suggested-namespace": NAMESPACE,
        "repository": facts.url,
        "support": "openshift-psap",
    }


def install_modes() -> list[dict[str, Any]]:
    """Four of the operators watch all namespaces, with rights to match, so no smaller mode is true.

    Installed for its own namespace twice, two of each would work on the same objects.
    """
    modes = ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
    return [{"type": mode, "supported": mode == "AllNamespaces"} for mode in modes]


def install(division: Division) -> dict[str, Any]:
    """Returns the Deployments, and the rights of their accounts."""
    return {
        "clusterPermissions": [
            {"serviceAccountName": account, "rules": list(rules)}
            for account, rules in division.rights.items()
        ],
        "deployments": [
            {
                "name": item["metadata"]["name"],
                "label": item["metadata"]["labels"],
                "spec": item["spec"],
            }
            for item in division.deployments
        ],
    }


def owned(kind: Kind, crd: Document) -> dict[str, Any]:
    """Returns the description of a kind, from the schema of its CRD."""
    (version,) = crd["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    name = crd["spec"]["names"]["kind"]
    return {
        "name": kind.crd,
        "version": version["name"],
        "kind": name,
        "displayName": name,
        "description": schema["description"],
        "resources": [{"kind": made, "name": "", "version": served} for made, served in kind.resources],
        "specDescriptors": list(_descriptors(schema["properties"]["spec"])),
        "statusDescriptors": list(_descriptors(schema["properties"]["status"])),
    }


def _descriptors(schema: Mapping[str, Any]) -> Iterable[dict[str, str]]:
    for path, field in schema["properties"].items():
        yield {"path": path, "displayName": words(path), "description": field["description"]}


def words(field: str) -> str:
    """Returns the name of a field as words: `dashboardURL` is "Dashboard URL"."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", field)
    text = " ".join(part if part.isupper() else part.lower() for part in parts)
    return text[:1].upper() + text[1:]
