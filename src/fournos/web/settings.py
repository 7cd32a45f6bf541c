"""Settings of the page, read from FOURNOS_WEB_… environment variables."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


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
    public_url: str = Field(
        "",
        description="The address that people type, such as https://fournos.example.com; other hosts and "
        "origins are refused. Empty: the host of each request counts",
    )
    proxy_secret_file: str = Field(
        "",
        description="File with the secret that a proxy in front shows as the password of `Authorization: "
        "Basic`; whom its X-Forwarded-User and X-Forwarded-Groups name is then impersonated, which takes a "
        "right. Empty: people come with tokens of the cluster",
    )
    proxy_prefix: str = Field("oidc:", description="Put before the names of users and groups of that proxy")

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """The values of the Host header that are answered; empty: any."""
        return frozenset({urlsplit(self.public_url).netloc.lower()}) if self.public_url else frozenset()

    @field_validator("public_url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if value and (parts.scheme != "https" or not parts.netloc or parts.path.strip("/")):
            raise ValueError("is not an address of https without a path: write https://fournos.example.com")
        return value.rstrip("/").removesuffix(":443")
