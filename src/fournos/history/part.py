"""The part `history`: records what runs and what has ended."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.client import Client
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.manager import Manager
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import FOURNOS, Part, Running, UnsupportedError, Wake
from fournos.extras import remedy
from fournos.history.metrics import MESSAGES
from fournos.history.recorder.controller import LiveObjects, count, name_of, recorder, report
from fournos.history.recorder.steps import Journal
from fournos.history.settings import HistorySettings

if TYPE_CHECKING:
    from fournos.history.blobs import Blobs
    from fournos.history.logs.collector import LogCollector
    from fournos.history.recorder.database import DatabaseArchive

SWEEP_INTERVAL = 60.0
"""Seconds between two looks for runs whose objects were deleted unseen."""


def start(settings: HistorySettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    # Imported here, because only this part needs the packages of the extra `history`.
    from fournos.history.api.service import HistoryService, api_tasks
    from fournos.history.blobs import open_blobs
    from fournos.history.recorder.database import DatabaseArchive

    archive = DatabaseArchive(settings.database_url, settings.namespace_bytes)
    journals = {resource.kind: (resource, Journal()) for resource in settings.resources()}
    blobs = open_blobs(settings.blob_place, settings.s3_ca_file)
    logs = _collector(settings, archive, blobs, wake)

    objects = LiveObjects(settings.resources())
    wrote = partial(count, metrics)

    def serve(api: Client) -> Mapping[str, Callable[[], Awaitable[None]]]:
        service = HistoryService(
            archive.reading,
            blobs,
            clock=clock,
            limits=settings.artifact_limits,
        )
        changes = _changes(settings, archive, metrics, clock, api, objects)
        return {"history-changes": changes, **api_tasks(api, settings, service, clock)}

    def refresh(manager: Manager) -> None:
        report({kind: journal for kind, (_, journal) in journals.items()}, metrics)

    background: dict[str, Callable[[], Awaitable[None]]] = {
        "history-database": archive.run,
        "history-retention": partial(_retention, settings, archive, blobs, metrics, clock, objects),
    }
    if logs is not None:
        background["history-logs"] = logs.run

    return Running(
        [
            recorder(settings, resource, archive, journal, wrote=wrote, logs=logs)
            for resource, journal in journals.values()
        ],
        background=background,
        started=objects.started,
        serve=serve,
        problems=archive.problems,
        refresh=refresh,
    )


async def _retention(
    settings: HistorySettings,
    archive: DatabaseArchive,
    blobs: Blobs,
    metrics: Metrics,
    clock: Clock,
    objects: LiveObjects,
) -> None:
    """Deletes what has expired, until cancelled."""
    from fournos.history.store.retention import RetentionLimits, keep_within

    store, limits = await archive.recording(), RetentionLimits.of(settings)
    await keep_within(store, blobs, limits, metrics, clock, cluster=objects.cluster)


def _changes(
    settings: HistorySettings,
    archive: DatabaseArchive,
    metrics: Metrics,
    clock: Clock,
    api: Client,
    objects: LiveObjects,
) -> Callable[[], Awaitable[None]]:
    """Returns the task that looks for changes of results, and announces them."""
    from fournos.history.alerts.announce import Announcer, Events, Webhook
    from fournos.history.store.verdicts import watch_results

    events = Events(api, objects.find, clock, socket.gethostname())
    webhook = (
        Webhook(settings.webhook_url_file, page=settings.page_url) if settings.webhook_url_file else None
    )
    announcer = Announcer(clock, events, webhook, partial(metrics.add, MESSAGES))
    return partial(watch_results, archive.recording, metrics, clock, announcer, cluster=objects.cluster)


def _collector(
    settings: HistorySettings, archive: DatabaseArchive, blobs: Blobs, wake: Wake
) -> LogCollector | None:
    """Returns the collector of logs; None if none are stored."""
    from fournos.history.logs.collector import LogCollector
    from fournos.history.store.blobs import LogRows

    if not settings.log_mb or FOURNOS_JOB not in settings.resources():
        return None

    async def rows() -> LogRows:
        return LogRows(await archive.recording())

    finished = partial(wake, name_of(FOURNOS_JOB))
    return LogCollector(rows, blobs, settings.log_mb * 1_000_000, finished=finished)


async def verify(settings: HistorySettings, api: Client) -> list[str]:
    """Returns warnings about a bucket that does not answer.

    Raises UnsupportedError if packages of the history are missing, or its bucket cannot be used as it is set.
    """
    if not all(map(find_spec, ("sqlalchemy", "obstore"))):
        raise UnsupportedError(f"the history needs packages that are missing: {remedy('history')}")
    from fournos.history.blobs import BlobsUsageError, open_blobs

    try:
        return await open_blobs(settings.blob_place, settings.s3_ca_file).check()
    except BlobsUsageError as error:
        raise UnsupportedError(str(error)) from None


PART = Part(
    name="history",
    title="History (`fournos run --enable history`)",
    settings=HistorySettings,
    start=start,
    lease="fournos-history",
    required=(FOURNOS,),
    collect_interval=lambda settings: SWEEP_INTERVAL,
    verify=verify,
)
