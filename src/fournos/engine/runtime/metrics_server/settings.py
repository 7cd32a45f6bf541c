"""Settings of /metrics (FOURNOS_METRICS_… environment variables)."""

from __future__ import annotations

import socket
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from fournos.engine.api.durations import parse_duration
from fournos.engine.runtime.webhook.registration import Service

LONGEST = 600.0
"""Maximum seconds that the result for a token may be cached, because a withdrawn right must end soon."""


class MetricsSettings(BaseSettings):
    """Every field is one variable: `FOURNOS_METRICS_` + the field's name in capitals."""

    model_config = SettingsConfigDict(env_prefix="FOURNOS_METRICS_", extra="ignore")

    port: Annotated[int, Field(ge=0, le=65535)] = Field(
        0,
        description="Port that serves /metrics by https to bearer tokens with the right to get it "
        "(a ClusterRole with nonResourceURLs: [/metrics], verbs: [get]); 0: none",
    )
    host: str = Field("", description="Address that it listens at; without it, all")
    service: str = Field(
        "", description="Service in the operator's namespace whose names are in the certificate"
    )
    secret: str = Field(
        "fournos-metrics-cert",
        min_length=1,
        description="Secret of the certificate, in that namespace; its key ca-bundle.crt is what to trust",
    )
    review_lifetime: str = Field(
        "1m",
        description="How long the API server's answer about a token is kept, at most 10m; 0s: not at all",
    )
    plain: bool = Field(
        False,
        description="Serve /metrics on the health port, too, by plain http to all who reach it: "
        "for development",
    )

    @field_validator("review_lifetime")
    @classmethod
    def _is_short(cls, value: str) -> str:
        if not 0 <= parse_duration(value).total_seconds() <= LONGEST:
            raise ValueError("must be between 0s and 10m")
        return value

    @property
    def kept_for(self) -> float:
        """`review_lifetime` in seconds."""
        return parse_duration(self.review_lifetime).total_seconds()

    def hosts(self, namespace: str) -> tuple[str, ...]:
        """Returns the names in the certificate."""
        return Service(namespace, self.service).hosts if self.service else (socket.gethostname(),)
