"""Where a part's Lease lies."""

from __future__ import annotations

import logging

from pydantic_settings import BaseSettings

from fournos.kube.api import Api
from fournos.kube.errors import KubeError, NotFoundError
from fournos.kube.kinds import NAMESPACE
from fournos.kube.resource import Key

log = logging.getLogger(__name__)


async def lease_namespace(api: Api, settings: BaseSettings, current: str) -> str:
    """The namespace of the settings; `current`, that of the credentials, where the settings name none and the
    default is not there: an operator in a terminal needs nothing deployed before it.
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
        pass  # whoever writes the Lease says what is wrong
    return namespace
