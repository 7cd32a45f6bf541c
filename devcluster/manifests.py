"""Renders the manifests of a cluster: CoreDNS, a storage class, Tekton and Kueue. Pure functions."""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from devcluster.components import DNS_SERVICE_IP, DOMAIN, KUEUE_HEALTH_PORT, KUEUE_WEBHOOK_PORT
from devcluster.errors import DevclusterError

KUEUE_NAMESPACE = "kueue-system"
BUSYBOX_IMAGE = "docker.io/library/busybox:1.36"
KUEUE_IMAGE = "docker.io/local/kueue:1"
COREDNS_IMAGE = "docker.io/local/coredns:1"

Object = dict[str, Any]

_KUEUE_CONFIG_KEY = "controller_manager_config.yaml"
_WEBHOOK_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse(text: str) -> list[Object]:
    """Returns the objects of a YAML stream, without empty documents."""
    return [each for each in yaml.load_all(text, Loader=_LOADER) if each]


def dump(objects: list[Object]) -> str:
    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump_all(objects, Dumper=dumper, sort_keys=False))


def tekton_files(config: Path) -> list[Path]:
    """Returns the files of Tekton's `config/` that an installation needs, in the order of their numbers."""
    patterns: tuple[str, ...]
    patterns = ("100-namespace/*.yaml", "200-*.yaml", "201-*.yaml", "300-crds/*.yaml", "500-webhooks.yaml")
    patterns += ("clusterrole-aggregate-*.yaml", "config-*.yaml", "controller.yaml", "webhook.yaml")
    files = [path for pattern in patterns for path in sorted(config.glob(pattern))]
    if not files:
        raise DevclusterError(
            f"No Tekton manifests in {config}", hint="Build again: python -m devcluster build"
        )
    return files


def tekton_image(program: str) -> str:
    return f"docker.io/local/tekton-{program}:1"


def localise_tekton(text: str, version: str) -> str:
    """Returns Tekton's source manifests with local images and the version that a release build fills in."""
    text = re.sub(
        r"ko://github\.com/tektoncd/pipeline/cmd/(\w+)", lambda found: tekton_image(found.group(1)), text
    )
    text = re.sub(r"cgr\.dev/chainguard/busybox@sha256:\w+", BUSYBOX_IMAGE, text)
    return text.replace('"devel"', f'"{version}"')


def tekton(config: Path, version: str) -> str:
    """Returns all manifests of Tekton Pipelines, as YAML text."""
    return localise_tekton("\n---\n".join(path.read_text() for path in tekton_files(config)), version)


def tekton_definitions(config: Path, version: str) -> str:
    """Returns only Tekton's CRDs. Without its webhook there is no conversion between versions."""
    files = sorted(config.glob("300-crds/*.yaml"))
    objects = parse(localise_tekton("\n---\n".join(file.read_text() for file in files), version))
    for each in objects:
        each["spec"].pop("conversion", None)
    return dump(objects)


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merges `changes` into `base`: maps are merged, other values and lists replaced, null removes a key."""
    merged = copy.deepcopy(dict(base))
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def kueue_configuration(shipped: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns Kueue's shipped Configuration with a higher client rate and then the caller's `changes`.

    The shipped rate of 50 requests per second limits admission to about a dozen jobs per second.
    """
    faster = merge(shipped, {"clientConnection": {"qps": 1000, "burst": 2000}})
    return merge(faster, changes)


def _shipped_configuration(objects: list[Object]) -> tuple[Object, dict[str, Any]]:
    for each in objects:
        if each["kind"] == "ConfigMap" and _KUEUE_CONFIG_KEY in each.get("data", {}):
            return each, yaml.safe_load(each["data"][_KUEUE_CONFIG_KEY])
    raise DevclusterError(
        "Kueue's manifests hold no Configuration", hint="Build again: python -m devcluster build"
    )


def kueue(rendered: str, changes: Mapping[str, Any]) -> str:
    """Returns Kueue for pods: its default manifests with the local image, a small request of CPU and the
    merged Configuration.
    """
    objects = parse(rendered)
    config_map, shipped = _shipped_configuration(objects)
    config_map["data"][_KUEUE_CONFIG_KEY] = yaml.safe_dump(
        kueue_configuration(shipped, changes), sort_keys=False
    )
    for each in objects:
        if each["kind"] == "Deployment":
            for container in each["spec"]["template"]["spec"]["containers"]:
                container["image"] = KUEUE_IMAGE
                container["imagePullPolicy"] = "IfNotPresent"
                # As shipped it reserves half a core: a quarter of a small machine, which it hardly uses.
                container["resources"]["requests"]["cpu"] = "100m"
    return dump(objects)


def kueue_process_configuration(rendered: str, changes: Mapping[str, Any], certificates: Path) -> str:
    """Returns Kueue's Configuration for a plain process, without leader election or internal certificates.

    The visibility server is off because it writes its certificates to a fixed path.
    """
    _, shipped = _shipped_configuration(parse(rendered))
    process = {
        "namespace": KUEUE_NAMESPACE,
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{KUEUE_HEALTH_PORT}"},
        "webhook": {"host": "127.0.0.1", "port": KUEUE_WEBHOOK_PORT, "certDir": str(certificates)},
        "featureGates": {"VisibilityOnDemand": False},
    }
    return yaml.safe_dump(merge(kueue_configuration(shipped, changes), process), sort_keys=False)


def kueue_without_pods(rendered: str, ca_pem: bytes) -> str:
    """Returns Kueue's CRDs, roles and webhooks. All webhooks, also conversion, have a URL, not a Service."""
    objects = [
        each
        for each in parse(rendered)
        if each["kind"] in ("Namespace", "CustomResourceDefinition", "ClusterRole", *_WEBHOOK_KINDS)
    ]
    bundle = base64.b64encode(ca_pem).decode()

    def by_url(client_config: Object) -> Object:
        path = client_config["service"].get("path", "")
        return {"url": f"https://127.0.0.1:{KUEUE_WEBHOOK_PORT}{path}", "caBundle": bundle}

    for each in objects:
        if each["kind"] in _WEBHOOK_KINDS:
            for webhook in each["webhooks"]:
                webhook["clientConfig"] = by_url(webhook["clientConfig"])
        elif each["kind"] == "CustomResourceDefinition":
            webhook = each["spec"].get("conversion", {}).get("webhook")
            if webhook:
                webhook["clientConfig"] = by_url(webhook["clientConfig"])
    return dump(objects)


STORAGE_CLASS: Object = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {
        "name": "standard",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": "kubernetes.io/host-path",
}


def coredns() -> str:
    """Returns CoreDNS for the cluster's own names.

    Other names are refused at once: pods have no route to the outside.
    """
    labels = {"k8s-app": "kube-dns"}
    corefile = f"""\
.:53 {{
    errors
    health
    ready
    kubernetes {DOMAIN} in-addr.arpa ip6.arpa {{
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
    }}
    cache 5
    loadbalance
}}
"""
    account = {"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"}
    meta = {"name": "coredns", "namespace": "kube-system", "labels": labels}
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]
    container = {
        "name": "coredns",
        "image": COREDNS_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [{"name": p["name"], "containerPort": 53, "protocol": p["protocol"]} for p in ports],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "livenessProbe": {"httpGet": {"path": "/health", "port": 8080}, "initialDelaySeconds": 30},
        "resources": {"requests": {"cpu": "10m", "memory": "30Mi"}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
    }
    pod = {
        "serviceAccountName": "coredns",
        "dnsPolicy": "Default",
        "priorityClassName": "system-cluster-critical",
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    }
    role_rules = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    rbac = "rbac.authorization.k8s.io"
    return dump(
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"Corefile": corefile}},
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "ClusterRole",
                "metadata": {"name": "system:coredns"},
                "rules": role_rules,
            },
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "system:coredns"},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "system:coredns"},
                "subjects": [account],
            },
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": meta,
                "spec": {
                    "replicas": 1,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": pod},
                },
            },
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": labels},
                "spec": {"clusterIP": DNS_SERVICE_IP, "selector": labels, "ports": ports},
            },
        ]
    )
