"""A cluster that is as it must be, as `fournos doctor` reads it, for tests that change one thing."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fournos import __version__
from fournos.engine.api.crd import crd
from fournos.engine.kube.errors import KubeError, NoSuchResourceError
from fournos.engine.kube.resource import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    LEASE,
    NAMESPACE,
    SELF_SUBJECT_ACCESS_REVIEW,
    SERVICE_ACCOUNT,
    VALIDATING_WEBHOOKS,
    Key,
    Obj,
    Resource,
)
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR
from fournos.insight.doctor import KINDS, examine
from fournos.insight.doctor_access import DoctorFinding, ExaminedNamespaces, Level
from tests.unit.cli.api import Api
from tests.unit.cli.objects import NOW, NS

PLACE = ExaminedNamespaces(NS, "hearth", "fournos-queue")
SERVICE = Key(NS, "fournos-webhooks")


def obj(
    name: str, *, namespace: str = "", spec: Any = None, status: Any = None, **rest: Any
) -> dict[str, Any]:
    meta = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": rest.pop("labels", {})}
    return {"metadata": meta, "spec": spec or {}, "status": status or {}, **rest}


def lease(renewed: datetime) -> dict[str, Any]:
    """The Lease of the operator."""
    spec = {"holderIdentity": "fournos-0", "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    return obj("fournos", namespace=NS, spec=spec)


def active(status: str = "True", **fields: str) -> dict[str, Any]:
    return {"conditions": [{"type": "Active", "status": status, **fields}]}


def local_queue(name: str = "fournos-queue", **fields: Any) -> dict[str, Any]:
    return obj(name, namespace=NS, spec={"clusterQueue": "all", **fields}, status=active())


def deployment(name: str, image: str) -> dict[str, Any]:
    return obj(name, namespace=NS, spec={"template": {"spec": {"containers": [{"image": image}]}}})


@cache
def crds() -> dict[str, Any]:
    established = {"conditions": [{"type": "Established", "status": "True"}]}
    return {one.name: {**crd(one, rules=rules), "status": established} for one, rules in KINDS}


def configuration(**fields: Any) -> dict[str, Any]:
    """The ConfigMap of Kueue's Configuration."""
    return {
        **obj("kueue-manager-config", namespace="kueue-system"),
        "data": {"controller_manager_config.yaml": yaml.safe_dump(fields)},
    }


@cache
def authority(ends: datetime) -> str:
    """A caBundle with one certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(ends - timedelta(days=100))
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


class Server(Api):
    """A healthy cluster; `refused` are the permissions, as verb and plural, that the caller lacks."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()
        self.asked: list[dict[str, Any]] = []
        self.kubernetes = "v1.34.4"
        self.served = {
            "fournos.dev": ("v1",),
            "kueue.x-k8s.io": ("v1beta2",),
            "tekton.dev": ("v1",),
        }
        self.history: bytes | KubeError = NoSuchResourceError("404 page not found", status=404)
        covered = ["fournos/cluster-slot", "fournos/gpu-a100"]
        groups = [{"coveredResources": covered, "flavors": [{"name": "cluster-1"}]}]
        selector = {"matchLabels": {"fournos.dev/queue-access": "true"}}
        spec = {"resourceGroups": groups, "namespaceSelector": selector}
        self.add(DEPLOYMENT, deployment("fournos", f"quay.io/rh_perfscale/fournos:{__version__}"))
        self.add(CONFIG_MAP, configuration())
        self.add(LOCAL_QUEUE, local_queue())
        self.add(CLUSTER_QUEUE, obj("all", spec=spec, status=active()))
        self.add(RESOURCE_FLAVOR, obj("cluster-1"))
        self.add(NAMESPACE, obj(NS, labels={"fournos.dev/queue-access": "true"}))
        self.add(LEASE, lease(NOW))
        self.add(SERVICE_ACCOUNT, obj("fournos-resolver", namespace=NS))
        self.add(VALIDATING_WEBHOOKS, webhooks(authority(NOW + timedelta(days=90))))
        self.endpoints({"conditions": {"ready": True}})
        for definition in crds().values():
            self.add(CUSTOM_RESOURCE_DEFINITION, definition)

    def endpoints(self, *endpoints: dict[str, Any]) -> None:
        """The endpoints of the webhooks' Service."""
        labels = {"kubernetes.io/service-name": SERVICE.name}
        self.add(
            ENDPOINT_SLICE,
            {**obj("s", namespace=SERVICE.namespace, labels=labels), "endpoints": list(endpoints)},
        )

    def only(self, resource: Resource, *objects: Obj) -> None:
        """The only objects of a kind."""
        self.objects[resource] = {}
        for one in objects:
            self.add(resource, one)

    async def raw_get(self, path: str) -> bytes:
        if path == "/version":
            return json.dumps({"gitVersion": self.kubernetes}).encode()
        if path.startswith("/apis/"):
            if isinstance(self.history, KubeError):
                raise self.history
            return self.history
        assert path == "/apis"
        groups = [
            {"name": name, "versions": [{"version": version} for version in versions]}
            for name, versions in self.served.items()
        ]
        return json.dumps({"groups": groups}).encode()

    async def create(self, resource: Resource, body: Obj, *, dry_run: bool = False) -> Obj:
        assert resource is SELF_SUBJECT_ACCESS_REVIEW
        self._check("create", resource)
        asked = body["spec"]["resourceAttributes"]
        self.asked.append(asked)
        return {"status": {"allowed": f"{asked['verb']} {asked['resource']}" not in self.refused}}


async def found(area: str, server: Server, place: ExaminedNamespaces = PLACE) -> list[DoctorFinding]:
    """What is found in an area."""
    return [one for one in await examine(server, place, NOW) if one.area == area]


def bad(findings: list[DoctorFinding]) -> list[tuple[str, Level]]:
    """What is a fault or warning; each of them has a fix, which a reader can follow."""
    found = [one for one in findings if one.level in (Level.FAULT, Level.WARNING)]
    assert all(one.fix and one.text for one in found), found
    return [(one.what, one.level) for one in found]
