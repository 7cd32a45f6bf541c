"""Settings of the MiniCluster system (FOURNOS_MINICLUSTER_… environment variables)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class MiniClusterSettings(BaseSettings):
    """Every field is one variable: `FOURNOS_MINICLUSTER_` + the field's name in capitals."""

    model_config = SettingsConfigDict(
        env_prefix="FOURNOS_MINICLUSTER_", extra="ignore", populate_by_name=True
    )

    view_image: str = Field(
        "ghcr.io/converged-computing/flux-view-rocky:tag-9",
        min_length=1,
        description="Image that brings Flux, for MiniClusters that name none",
    )
    network_device: str = Field("eth0", min_length=1, description="Network device that brokers bind to")
    drain_grace_sec: ClassVar[int] = 60
    """Seconds that a worker which is taken away waits for its tasks to end."""
    end_grace_sec: ClassVar[int] = 30
    """Seconds after the lead broker's end in which containers beside Flux may end; then pods are deleted."""
    pod_rights: Literal["policy", "refused", "open"] = Field(
        "policy",
        description="Whether a MiniCluster may have fields beyond containers of its author's own, such as "
        "Secrets, pull secrets, pod labels, a RuntimeClass, privileges: where the policy "
        "fournos-minicluster-pods checks the rights of its author (policy), never (refused), or unchecked "
        "(open)",
    )
