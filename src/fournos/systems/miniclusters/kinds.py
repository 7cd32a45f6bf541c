"""The resource types of the MiniCluster operator."""

from __future__ import annotations

from typing import Final

from fournos.engine.kube.resource import Resource

SERVICE: Final = Resource("", "v1", "Service", "services")
