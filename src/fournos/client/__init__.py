"""The client library of Fournos: `Client` for synchronous programs, `AsyncClient` for asyncio."""

from __future__ import annotations

import logging

from fournos.client.asynchronous import AsyncClient as AsyncClient
from fournos.client.clusters import AsyncCluster as AsyncCluster
from fournos.client.clusters import AsyncQueue as AsyncQueue
from fournos.client.connection import Handles as Handles
from fournos.client.errors import ApiError as ApiError
from fournos.client.errors import ConflictError as ConflictError
from fournos.client.errors import DeletedError as DeletedError
from fournos.client.errors import EndedError as EndedError
from fournos.client.errors import FournosError as FournosError
from fournos.client.errors import JobFailed as JobFailed
from fournos.client.errors import JobStopped as JobStopped
from fournos.client.errors import KeyConflict as KeyConflict
from fournos.client.errors import ManifestError as ManifestError
from fournos.client.errors import MissingError as MissingError
from fournos.client.errors import NoHistoryError as NoHistoryError
from fournos.client.errors import NoLogError as NoLogError
from fournos.client.errors import NotAllowedError as NotAllowedError
from fournos.client.errors import NotEndedError as NotEndedError
from fournos.client.errors import NotInstalledError as NotInstalledError
from fournos.client.errors import ObjectFailed as ObjectFailed
from fournos.client.errors import RefusedError as RefusedError
from fournos.client.errors import UnreachableError as UnreachableError
from fournos.client.errors import WaitTimeout as WaitTimeout
from fournos.client.handles import ObjectEvent as ObjectEvent
from fournos.client.jobs import AsyncJob as AsyncJob
from fournos.client.jobs import JobEvent as JobEvent
from fournos.client.logs import LogLine as LogLine
from fournos.client.schedules import AsyncSchedule as AsyncSchedule
from fournos.client.synchronous import AppWrapper as AppWrapper
from fournos.client.synchronous import Client as Client
from fournos.client.synchronous import Cluster as Cluster
from fournos.client.synchronous import Job as Job
from fournos.client.synchronous import MiniCluster as MiniCluster
from fournos.client.synchronous import Object as Object
from fournos.client.synchronous import Queue as Queue
from fournos.client.synchronous import Schedule as Schedule
from fournos.client.workloads import AsyncAppWrapper as AsyncAppWrapper
from fournos.client.workloads import AsyncMiniCluster as AsyncMiniCluster
from fournos.client.workloads import AsyncObject as AsyncObject
from fournos.insight.failure import Category as Category
from fournos.insight.failure import Failure as Failure

# Without a handler Python prints the warnings of broken watches to stderr.  The client resumes these watches
# itself, so the warnings need no action.
logging.getLogger("fournos").addHandler(logging.NullHandler())
