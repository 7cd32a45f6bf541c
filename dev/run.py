"""`make dev-run`: the operator of this checkout, here, against the local cluster."""

from __future__ import annotations

import os
import sys
from functools import partial

from dev import endings
from dev.setup import Where, arguments, where_of
from devcluster.state import require


def main() -> int:
    where = where_of(arguments("Run the operator against the local cluster.").parse_args())
    return endings.run(partial(_run, where), go_on="Set it up first: make dev-setup")


def _run(where: Where) -> int:
    kubeconfig = require(where.cluster).kubeconfig
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
    sys.exit(main())
