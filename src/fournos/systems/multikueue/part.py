"""The part `multikueue`: jobs on worker clusters."""

from __future__ import annotations

from fournos.engine.kube.client import Client
from fournos.engine.queueing.kinds import KUEUE
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import Part, Running, Wake
from fournos.engine.runtime.preflight import verify_kinds
from fournos.systems.multikueue.controller import multikueue_controllers
from fournos.systems.multikueue.settings import MultiKueueSettings


def start(settings: MultiKueueSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    requests = metrics.requests("worker")
    controllers, workers = multikueue_controllers(settings, clock=clock, wake=wake, requests=requests)
    return Running(controllers, background={"workers": workers.run})


async def verify(settings: MultiKueueSettings, api: Client) -> list[str]:
    """Returns warnings about configured kinds without a CRD.  Raises UnsupportedError for wrong names."""
    return await verify_kinds(api, settings.kinds, setting="FOURNOS_MULTIKUEUE_EXTERNAL_FRAMEWORKS")


PART = Part(
    name="multikueue",
    title="Jobs on other clusters (`fournos run --enable multikueue`)",
    settings=MultiKueueSettings,
    start=start,
    lease="fournos-multikueue",
    required=(KUEUE,),
    collect_interval=lambda settings: settings.gc_interval_sec,
    verify=verify,
)
