"""`make dev-setup`: a local cluster with Tekton, Kueue, our CRDs and RBAC, and mocks of remote systems."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import get_args

from dev import endings, resources
from dev.image import mock_resolve_image, pulled_mock_resolve_image
from devcluster import Cluster, DevclusterError, preflight
from devcluster.cluster import start
from devcluster.engine import Engine, require_engine
from devcluster.kubectl import await_established
from devcluster.native import build
from devcluster.native import prepare as prepare_machine
from devcluster.progress import Progress
from devcluster.spec import ClusterSpec, ProviderName
from devcluster.versions import SETS, Versions, asked

DEV_CLUSTER = "fournos-dev"
CONTINUES = "It continues with what there is."
LOCAL_NAMESPACE = "fournos-local-dev"


@dataclass(frozen=True)
class Where:
    """The cluster to set up, and its namespaces."""

    cluster: str = DEV_CLUSTER
    namespace: str = LOCAL_NAMESPACE
    secrets_namespace: str = "psap-secrets"
    operator_namespace: str = ""
    """"": that of the jobs, as with the published commands; their rights are then set up, too."""
    provider: ProviderName = "native"
    kubeconfig: Path | None = None
    """The kubeconfig of an existing cluster."""
    resolve_image: str = ""
    """A mock resolver image that the cluster can pull.  Without it an image is built and loaded."""
    untried: bool = False
    """Goes on where a machine of this kind has never been tried."""
    versions: str = field(default_factory=asked)
    """The name of the set of versions of a local cluster."""


def check_machine(where: Where, progress: Progress) -> None:
    """Prints what a native cluster needs and what this machine has, and makes it ready.

    Raises DevclusterError if something is missing.
    """
    if where.provider == "native":
        preflight.require(progress, Versions.named(where.versions), untried=where.untried)
        prepare_machine(progress)


def prepare(where: Where, progress: Progress) -> Cluster:
    """Sets up everything that an operator needs.  A running cluster is reused.  Raises DevclusterError."""
    if where.provider == "existing" and not where.resolve_image:
        raise DevclusterError(
            "No image can be loaded into an existing cluster: name a mock resolver that it can pull",
            hint="Build dev/mock-resolve/Containerfile.public, push it, and add --resolve-image.",
        )
    engine = engine_of(where.provider)
    spec = ClusterSpec(
        name=where.cluster,
        profile="full",
        provider=where.provider,
        kubeconfig=str(where.kubeconfig.resolve()) if where.kubeconfig else None,
        versions=where.versions,
    )
    cluster = start(spec, progress=progress)
    if not where.resolve_image:
        if engine:
            resolver = pulled_mock_resolve_image(engine, progress)
        else:
            archives = build(progress, spec.version_set)[1]
            resolver = mock_resolve_image(archives["kubectl"], progress)
        cluster.load(resolver.archive, progress=progress)
    with progress.step(
        f"Namespaces {where.namespace} and {where.secrets_namespace}, CRDs, rights, mocks", usual="5 s"
    ):
        install(cluster, where)
    return cluster


def engine_of(provider: ProviderName) -> Engine | None:
    """Returns the engine that builds images for the provider; None means buildah.

    It is Docker or Podman for clusters of kind, so that no program is compiled here.  Raises DevclusterError
    if neither answers.
    """
    return require_engine("The provider `kind`") if provider == "kind" else None


def install(cluster: Cluster, where: Where) -> None:
    """Applies CRDs, rights and mocks to a cluster that has Tekton and Kueue.  Raises DevclusterError."""
    resources.apply(
        cluster,
        [
            *resources.namespaces(where.namespace, where.secrets_namespace, where.operator_namespace),
            *resources.load("manifests/crd.yaml"),
        ],
    )
    await_established(cluster.kubectl_words())
    # With a namespace of its own the operator brings its rights (dev.operator).
    rights = () if where.operator_namespace else resources.rbac(where.namespace, where.secrets_namespace)
    resources.apply(
        cluster,
        [
            *rights,
            *resources.load("dev/mock-kueue-config.yaml"),
            *resources.mock_pipelines(where.resolve_image),
        ],
        namespace=where.namespace,
    )
    secrets = resources.mock_secrets(where.namespace)
    resources.apply(cluster, secrets, namespace=where.secrets_namespace)


def arguments(description: str) -> argparse.ArgumentParser:
    """Returns a parser with the common options of the commands of dev/."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cluster", default=DEV_CLUSTER, help=f"the local cluster's name ({DEV_CLUSTER})")
    parser.add_argument(
        "--provider",
        choices=get_args(ProviderName),
        default=os.environ.get("DEVCLUSTER_PROVIDER", "native"),
        help="native: Linux and root; kind: Docker or Podman; existing: any cluster, with --kubeconfig",
    )
    parser.add_argument("--kubeconfig", type=Path, help="of the existing cluster")
    parser.add_argument(
        "--resolve-image", default="", help="mock resolver that the cluster can pull (existing clusters)"
    )
    parser.add_argument(
        "--versions",
        choices=tuple(SETS),
        default=asked(),
        help=f"set of versions, see docs/devcluster.md ({asked()})",
    )
    parser.add_argument(
        "--untried", action="store_true", help="go on where a machine of this kind has never been tried"
    )
    return parser


def where_of(parsed: argparse.Namespace, *, namespace: str = LOCAL_NAMESPACE) -> Where:
    """Returns the target from the options, FOURNOS_NAMESPACE and FOURNOS_SECRETS_NAMESPACE."""
    return Where(
        cluster=parsed.cluster,
        namespace=os.environ.get("FOURNOS_NAMESPACE") or namespace,
        secrets_namespace=os.environ.get("FOURNOS_SECRETS_NAMESPACE") or "psap-secrets",
        provider=parsed.provider,
        kubeconfig=parsed.kubeconfig,
        resolve_image=parsed.resolve_image,
        untried=parsed.untried,
        versions=parsed.versions,
    )


def main() -> int:
    where = where_of(arguments("Set up a local cluster for development.").parse_args())
    return endings.run(partial(_set_up, where), go_on=f"To go on: make dev-setup. {CONTINUES}")


def _set_up(where: Where) -> int:
    progress = Progress()
    check_machine(where, progress)
    cluster = prepare(where, progress)
    print(
        f"\nReady.  The operator, run from this checkout:  make dev-run\n"
        f"kubectl for this cluster:                      export KUBECONFIG={cluster.kubeconfig_path}\n"
        f"Tests against that operator:                   FOURNOS_NAMESPACE={where.namespace} make test"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
