"""The admission webhooks of AppWrappers, with the names of the published operator's webhooks."""

from __future__ import annotations

from functools import partial

from fournos.api.kinds import APPWRAPPER
from fournos.engine.runtime.webhook.types import Webhook
from fournos.systems.appwrappers.admission import review
from fournos.systems.appwrappers.defaults import default
from fournos.systems.appwrappers.settings import AppWrapperSettings


def appwrapper_webhooks(settings: AppWrapperSettings) -> tuple[Webhook, ...]:
    """Returns the webhooks.

    They fail closed: without the review, users could create what only the operator may.
    """
    return (
        Webhook(
            kind="mutating",
            name="mappwrapper.kb.io",
            configuration="appwrapper-mutating-webhook-configuration",
            path="/mutate-workload-codeflare-dev-v1beta2-appwrapper",
            resources=(APPWRAPPER,),
            operations=("CREATE",),
            review=partial(default, settings=settings),
        ),
        Webhook(
            kind="validating",
            name="vappwrapper.kb.io",
            configuration="appwrapper-validating-webhook-configuration",
            path="/validate-workload-codeflare-dev-v1beta2-appwrapper",
            resources=(APPWRAPPER,),
            operations=("CREATE", "UPDATE"),
            review=partial(review, settings=settings),
        ),
    )
