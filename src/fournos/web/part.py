"""The part `web`: serves the page to the people of a cluster, on every replica."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib.util import find_spec

from fournos.engine.kube.client import Client
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import Part, Running, UnsupportedError, Wake
from fournos.extras import remedy
from fournos.web.settings import WebSettings


def start(settings: WebSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    def serve(api: Client) -> Mapping[str, Callable[[], Awaitable[None]]]:
        # Imported here, because only this part needs the packages of the extra `web`.
        from fournos.web.serving import tasks

        return tasks(api, settings, clock)

    return Running([], serve=serve)


async def verify(settings: WebSettings, api: Client) -> list[str]:
    """Raises UnsupportedError if packages of the page are missing, or the secret of its proxy."""
    if find_spec("jinja2") is None:
        raise UnsupportedError(f"the page needs packages that are missing: {remedy('web')}")
    from fournos.web.serving import trusted_proxy

    try:
        if proxy := trusted_proxy(settings):
            proxy.read()
    except ValueError as error:
        raise UnsupportedError(f"FOURNOS_WEB_PROXY_SECRET_FILE: {error}") from None
    return []


PART = Part(
    name="web",
    title="The page (`fournos run --enable web`)",
    settings=WebSettings,
    start=start,
    lease="",
    required=(),
    verify=verify,
)
