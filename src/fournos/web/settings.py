"""Settings of the page, read from FOURNOS_WEB_… environment variables."""

from __future__ import annotations

import socket
from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from fournos.runtime.webhook.registration import Service


class WebSettings(BaseSettings):
    """Every field is one variable: `FOURNOS_WEB_` + the field's name in capitals."""

    model_config = SettingsConfigDict(env_prefix="FOURNOS_WEB_", extra="ignore", populate_by_name=True)

    namespace: str = Field("fournos-web", min_length=1, description="Namespace of the page itself")
    jobs_namespace: str = Field(
        "", description="Namespace whose objects are shown; empty: those of all namespaces"
    )
    clusters_namespace: str = Field("hearth", min_length=1, description="Namespace of the FournosClusters")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(
        8443, description="Port that serves the page by https"
    )
    service: str = Field(
        "", description="Service of the page in that namespace, whose names are in its certificate"
    )
    certificate_secret: str = Field(
        "fournos-web-cert", min_length=1, description="Secret of the page's certificate in that namespace"
    )
    session_secret: str = Field(
        "fournos-web-session",
        min_length=1,
        description="Secret in that namespace with the key of all replicas that encrypts sessions; created "
        "if it does not exist",
    )
    session_hours: Annotated[float, Field(gt=0, le=168)] = Field(
        8.0, description="Hours after which a person must log in again"
    )
    public_url: str = Field(
        "",
        description="The address that people type, such as https://fournos.example.com; other hosts and "
        "origins are refused. Empty: the host of each request counts",
    )
    streams: Annotated[int, Field(ge=1)] = Field(
        1000, description="Open live streams of one replica; further tabs ask again every few seconds"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = Field(
        "INFO", description="Logging level"
    )

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names in the certificate of the page."""
        return Service(self.namespace, self.service).hosts if self.service else (socket.gethostname(),)
