"""The API server refuses, is busy, or goes away for a while: jobs wait and then go on."""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import UTC, datetime
from typing import Any

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.conditions import Condition, condition, upsert
from fournos.engine.kube.errors import ConflictError
from tests.faults.rules import Refuse
from tests.integration.jobs.stage import JobStage
from tests.integration.killing import WRITES

READS = ("get", "list", "watch")
STORM = 4.0
OUTAGE = 20.0


async def test_conflicts_with_another_writer_of_the_status(stage: JobStage) -> None:
    """Another client writes as fast as possible, twice: the job goes on at the latest after it."""
    stage.executors.held.add("job")
    await stage.leading()
    name = await stage.submit()
    written = await _write_on(stage, name, 0)
    await stage.phase(name, "Running")
    stage.executors.finish("job")
    written = await _write_on(stage, name, written)
    await stage.phase(name, "Succeeded")
    await stage.good_end({name: "Succeeded"}, runs=[name])
    conflicts = [call for call, code in stage.proxy.calls if call.resource == "fournosjobs" and code == 409]
    assert conflicts, "there was no conflict: the test shows nothing"
    writes = [call for call, _ in stage.proxy.calls if call.resource == "fournosjobs" and call.verb in WRITES]
    assert len(writes) < 20 + 2 * written, "a loop hotter than its cause"
    kept = condition(await stage.get(FOURNOS_JOB, name), "Foreign")
    assert kept is not None
    assert int(kept["message"]) == written, "a foreign condition was lost"


async def _write_on(stage: JobStage, name: str, written: int) -> int:
    """A condition and an annotation, in turn; the number of conditions written so far."""
    end = time.monotonic() + STORM
    while time.monotonic() < end:
        with contextlib.suppress(ConflictError):
            job = await stage.get(FOURNOS_JOB, name)
            found = (job.get("status") or {}).get("conditions") or []
            foreign = Condition("Foreign", "True", "Counting", str(written + 1))
            body: dict[str, Any] = {
                "metadata": {"resourceVersion": job["metadata"]["resourceVersion"]},
                "status": {"conditions": upsert(found, foreign, now=datetime.now(UTC))},
            }
            await stage.patch(FOURNOS_JOB, name, body, subresource="status")
            written += 1
        await stage.patch(FOURNOS_JOB, name, {"metadata": {"annotations": {"busy": str(written)}}})
    return written


async def test_429_with_retry_after_and_then_5xx_for_20_s(stage: JobStage) -> None:
    stage.executors.held.add("before")
    await stage.leading()
    await stage.submit("before")
    await stage.phase("before", "Running")
    for code, retry_after in ((429, 1), (503, None)):
        stage.fail_all(Refuse(code, retry_after=retry_after), verbs=(*WRITES, *READS))
        stage.proxy.cut_watches()
        stage.executors.finish("before")
        await stage.submit(f"during-{code}")
        await asyncio.sleep(OUTAGE / 2)
        stage.proxy.clear()
    jobs = ["before", "during-429", "during-503"]
    await stage.good_end(dict.fromkeys(jobs, "Succeeded"), runs=jobs)
    assert not any("Failed" in phases for phases in stage.executors.phases.values())
    refused = [call for call, code in stage.proxy.calls if code in (429, 503)]
    assert 0 < len(refused) < 40 * OUTAGE, "a hot loop"
