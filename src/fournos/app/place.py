"""The namespace of a part's Lease."""

from __future__ import annotations

import logging

from pydantic_settings import BaseSettings

from fournos.kube.api import Api
from fournos.kube.errors import KubeError, NotFoundError
from fournos.kube.kinds import NAMESPACE
from fournos.kube.resource import Key

log = logging.getLogger(__name__)


async def lease_namespace(api: Api, settings: BaseSettings, current: str) -> str:
    """Returns the namespace of the settings, or `current`, the namespace of the credentials.

    `current` is used if the settings name no namespace and the default one does not exist, so that an
    operator in a terminal needs no deployment before it.
    """
    namespace = str(getattr(settings, "namespace", ""))
    if "namespace" in settings.model_fields_set:
        return namespace
    try:
        await api.get(NAMESPACE, Key("", namespace))
    except NotFoundError:
        log.info("there is no namespace %s: the Lease lies in namespace %s", namespace, current)
        return current
    except KubeError:
        pass  # the write of the Lease reports the error
    return namespace
