"""The resource types of the MiniCluster operator."""

from __future__ import annotations

from typing import Final

from fournos.api.minicluster import DEFINITION
from fournos.kube.resource import Resource

MINICLUSTER: Final = Resource(DEFINITION.group, DEFINITION.version, DEFINITION.kind, DEFINITION.plural)
SERVICE: Final = Resource("", "v1", "Service", "services")
