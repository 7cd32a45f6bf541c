"""The client library of Fournos: `Client` for synchronous programs, `AsyncClient` for asyncio."""

from __future__ import annotations

import logging

from fournos.client.asynchronous import AsyncClient as AsyncClient
from fournos.client.clusters import AsyncCluster as AsyncCluster
from fournos.client.errors import ApiError as ApiError
from fournos.client.errors import ConflictError as ConflictError
from fournos.client.errors import DeletedError as DeletedError
from fournos.client.errors import FournosError as FournosError
from fournos.client.errors import JobFailed as JobFailed
from fournos.client.errors import JobStopped as JobStopped
from fournos.client.errors import KeyConflict as KeyConflict
from fournos.client.errors import ManifestError as ManifestError
from fournos.client.errors import MissingError as MissingError
from fournos.client.errors import NoLogError as NoLogError
from fournos.client.errors import NotAllowedError as NotAllowedError
from fournos.client.errors import NotEndedError as NotEndedError
from fournos.client.errors import NotInstalledError as NotInstalledError
from fournos.client.errors import RefusedError as RefusedError
from fournos.client.errors import UnreachableError as UnreachableError
from fournos.client.errors import WaitTimeout as WaitTimeout
from fournos.client.jobs import AsyncJob as AsyncJob
from fournos.client.jobs import JobEvent as JobEvent
from fournos.client.logs import LogLine as LogLine
from fournos.client.synchronous import Client as Client
from fournos.client.synchronous import Cluster as Cluster
from fournos.client.synchronous import Job as Job
from fournos.insight.failure import Category as Category
from fournos.insight.failure import Failure as Failure

# Without a handler Python prints the warnings of broken watches to stderr.  The client resumes these watches
# itself, so the warnings need no action.
logging.getLogger("fournos").addHandler(logging.NullHandler())
