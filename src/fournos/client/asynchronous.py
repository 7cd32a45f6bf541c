"""The asynchronous client."""

from __future__ import annotations

from fournos.client.job_methods import JobMethods
from fournos.client.kind_methods import KindMethods


class AsyncClient(JobMethods, KindMethods):
    """A connection to an API server with Fournos, with a default namespace and owner for jobs.

    Without arguments the configuration is that of the command line: the credentials come from KUBECONFIG, the
    pod's ServiceAccount or ~/.kube/config, the namespace from FOURNOS_NAMESPACE, then the context, and the
    owner from FOURNOS_OWNER.  `credentials` replaces the lookup of credentials.  `api` is an open connection
    that the caller owns.  `patience` is the number of seconds for which a read of the history is repeated
    while its store does not answer.  Use `async with`, or call `close()`.
    """
