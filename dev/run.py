"""`make dev-run`: the operator of this checkout, here, against the local cluster."""

from __future__ import annotations

import os
import sys

from dev.setup import arguments, where_of
from devcluster import DevclusterError
from devcluster.state import require


def main() -> None:
    where = where_of(arguments("Run the operator against the local cluster.").parse_args())
    try:
        kubeconfig = require(where.cluster).kubeconfig
    except DevclusterError as error:
        sys.exit(f"error: {error}\nSet it up first: make dev-setup")
    environment = {
        # The user's environment overrides these two.
        "FOURNOS_GC_INTERVAL_SEC": "5",
        "FOURNOS_RESOLVE_JOB_TEMPLATE": "dev/mock-resolve/resolve_job.yaml",
        **os.environ,
        "FOURNOS_NAMESPACE": where.namespace,
        "FOURNOS_SECRETS_NAMESPACE": where.secrets_namespace,
        "KUBECONFIG": str(kubeconfig),
    }
    print(f"The operator of namespace {where.namespace}.  Ctrl-C ends it.", flush=True)
    # This process becomes the operator, so that signals and the exit code need no forwarding.
    os.execve(sys.executable, [sys.executable, "-m", "fournos", "run"], environment)  # noqa: S606


if __name__ == "__main__":
    main()
