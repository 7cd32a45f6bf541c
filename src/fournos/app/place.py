"""The namespaces of a part's Lease and of the operator itself."""

from __future__ import annotations

import logging

from pydantic_settings import BaseSettings

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import KubeError, NotFoundError
from fournos.engine.kube.resource import NAMESPACE, Key

log = logging.getLogger(__name__)


def operator_namespace(settings: BaseSettings) -> str:
    """Returns the namespace of the operator's Services and certificates.

    Only the jobs' operator may have a namespace that is not the one it works in.
    """
    return str(getattr(settings, "controller_namespace", "") or getattr(settings, "namespace", ""))


async def lease_namespace(api: Api, settings: BaseSettings, current: str) -> str:
    """Returns the namespace of the settings, or `current`, the namespace of the credentials.

    It is the namespace in which the part works, never that of the operator: operators of the same jobs have
    one Lease, wherever each is deployed.

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
