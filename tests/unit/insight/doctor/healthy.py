"""The facts of a cluster that is as it must be, for tests that change one of them."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fournos import __version__
from fournos.engine.api.crd import crd
from fournos.engine.kube.resource import Key
from fournos.insight.crds import KINDS
from fournos.insight.doctor.facts import DoctorFacts, ExaminedNamespaces
from fournos.insight.doctor.finding import DoctorFinding, Level
from fournos.insight.doctor.needs import NEEDS

NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)
PLACE = ExaminedNamespaces("bench", "hearth", "fournos-queue")
SERVICE = Key("bench", "fournos-webhooks")


def obj(
    name: str, *, namespace: str = "", spec: Any = None, status: Any = None, **rest: Any
) -> dict[str, Any]:
    meta = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": rest.pop("labels", {})}
    return {"metadata": meta, "spec": spec or {}, "status": status or {}, **rest}


def lease(renewed: datetime, *, namespace: str = "bench") -> dict[str, Any]:
    """The Lease of the operator."""
    spec = {"holderIdentity": "fournos-0", "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    return obj("fournos", namespace=namespace, spec=spec)


def active(status: str = "True", **fields: str) -> dict[str, Any]:
    return {"conditions": [{"type": "Active", "status": status, **fields}]}


def deployment(name: str, image: str, *, ready: int = 2) -> dict[str, Any]:
    spec = {"replicas": 2, "template": {"spec": {"containers": [{"image": image}]}}}
    return obj(name, namespace="bench", spec=spec, status={"readyReplicas": ready})


@cache
def crds() -> dict[str, Any]:
    established = {"conditions": [{"type": "Established", "status": "True"}]}
    return {one.name: {**crd(one, rules=rules), "status": established} for one, rules in KINDS}


def configuration(**fields: Any) -> dict[str, Any]:
    """The ConfigMap of Kueue's Configuration."""
    return {**obj("kueue-manager-config"), "data": {"controller_manager_config.yaml": yaml.safe_dump(fields)}}


@cache
def authority(ends: datetime, days: int = 100) -> str:
    """A caBundle with one certificate that is valid for so many days."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(ends - timedelta(days=days))
        .not_valid_after(ends)
        .sign(key, hashes.SHA256())
    )
    return base64.b64encode(certificate.public_bytes(serialization.Encoding.PEM)).decode()


def webhooks(bundle: str, *, policy: str = "Fail", url: str = "") -> dict[str, Any]:
    """A webhook configuration with one webhook."""
    service = {"namespace": SERVICE.namespace, "name": SERVICE.name}
    client = {**({"url": url} if url else {"service": service}), "caBundle": bundle}
    rules = [{"apiGroups": ["fournos.dev"]}]
    webhook = {"name": "own-job.fournos.dev", "clientConfig": client, "failurePolicy": policy, "rules": rules}
    return {**obj("fournos-jobs"), "webhooks": [webhook]}


def facts(**changes: Any) -> DoctorFacts:
    """Of a healthy cluster, with `changes`."""
    covered = ["fournos/cluster-slot", "fournos/gpu-a100"]
    groups = [{"coveredResources": covered, "flavors": [{"name": "cluster-1"}]}]
    selector = {"matchLabels": {"fournos.dev/queue-access": "true"}}
    healthy = DoctorFacts(
        PLACE,
        "v1.34.4",
        {"fournos.dev": ("v1",), "kueue.x-k8s.io": ("v1beta2", "v1beta1"), "tekton.dev": ("v1",)},
        before=NOW,
        after=NOW,
        server_time=NOW.replace(microsecond=0),
        deployments=(
            deployment("fournos", f"quay.io/rh_perfscale/fournos:{__version__}"),
            deployment("kueue-controller-manager", "registry.k8s.io/kueue/kueue:v0.15.2"),
        ),
        tekton={**obj("pipelines-info"), "data": {"version": "v1.6.0"}},
        crds=crds(),
        namespace=obj("bench", labels={"fournos.dev/queue-access": "true"}),
        kueue=configuration(integrations={"frameworks": ["batch/job"]}),
        local_queues=(obj("fournos-queue", spec={"clusterQueue": "all"}, status=active()),),
        cluster_queues={
            "all": obj("all", spec={"resourceGroups": groups, "namespaceSelector": selector}, status=active())
        },
        flavors=(obj("cluster-1"),),
        webhooks=(webhooks(authority(NOW + timedelta(days=90))),),
        lease=lease(NOW),
        endpoints={SERVICE: ({**obj("slice"), "endpoints": [{"conditions": {"ready": True}}]},)},
        rights={right: True for need in NEEDS for right in need.rights(PLACE.namespace, PLACE.clusters)},
    )
    return replace(healthy, **changes)


def bad(findings: list[DoctorFinding]) -> list[tuple[str, Level]]:
    """What is a fault or warning; each of them has a fix, which a reader can follow."""
    found = [one for one in findings if one.level in (Level.FAULT, Level.WARNING)]
    assert all(one.fix and one.text for one in found), found
    return [(one.what, one.level) for one in found]
