"""Settings of the page, read from FOURNOS_WEB_… environment variables."""

from __future__ import annotations

import socket
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from fournos.engine.runtime.webhook.registration import Service


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
    proxies: Annotated[int, Field(ge=0)] = Field(
        0,
        description="How many proxies before the page add to X-Forwarded-For: logins are limited by address",
    )
    token_login: bool = Field(True, description="Whether people may log in by a token of the cluster")
    proxy_header: str = Field(
        "",
        description="Header with the person's token that a proxy before the page sets, such as "
        "X-Forwarded-Access-Token; only for a page that nothing else reaches. Empty: none is trusted",
    )
    oidc_issuer: str = Field("", description="Issuer of an OpenID Connect provider; empty: none")
    oidc_discovery: str = Field(
        "",
        description="Address of the provider's metadata; empty: issuer + /.well-known/openid-configuration",
    )
    oidc_name: str = Field("single sign-on", description="Name of the provider on the login page")
    oidc_client_id: str = Field("", description="Client id of the page at the provider")
    oidc_client_secret_file: str = Field("", description="File with its secret there; empty: it has none")
    oidc_scopes: str = Field("openid profile email", description="Scopes that are asked for, with spaces")
    oidc_bearer: Literal["id", "access"] = Field(
        "id",
        description="Which of the provider's tokens is the person's at the API server; access: OpenShift's "
        "OAuth server, which has no ID tokens",
    )
    oidc_ca_file: str = Field(
        "", description="File with the provider's certificate authority, in addition to those of the system"
    )
    impersonate: bool = Field(
        False,
        description="Whether the page acts for people of the provider by impersonation, where the API server "
        "does not take the provider's tokens; it needs a right of its own",
    )
    oidc_user_claim: str = Field(
        "sub", min_length=1, description="Claim with the name of a user that is impersonated"
    )
    oidc_user_prefix: str = Field("oidc:", description="Put before that name")
    oidc_groups_claim: str = Field(
        "groups", min_length=1, description="Claim with the groups of a user that is impersonated"
    )
    oidc_groups_prefix: str = Field("oidc:", description="Put before each of them")

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names in the certificate of the page."""
        return Service(self.namespace, self.service).hosts if self.service else (socket.gethostname(),)

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

    @field_validator("oidc_issuer", "oidc_discovery")
    @classmethod
    def _is_https(cls, value: str) -> str:
        if value and urlsplit(value).scheme != "https":
            raise ValueError("is not an address of https")
        return value

    @model_validator(mode="after")
    def _can_log_in(self) -> Self:
        if self.oidc_issuer and not (self.oidc_client_id and self.public_url):
            raise ValueError(
                "FOURNOS_WEB_OIDC_ISSUER needs FOURNOS_WEB_OIDC_CLIENT_ID, and FOURNOS_WEB_PUBLIC_URL, "
                "to which the provider sends people back"
            )
        if self.impersonate and not (self.oidc_issuer and self.oidc_bearer == "id"):
            raise ValueError("FOURNOS_WEB_IMPERSONATE needs a provider with ID tokens: they name the user")
        if not (self.token_login or self.oidc_issuer or self.proxy_header):
            raise ValueError("no way to log in is left: see FOURNOS_WEB_TOKEN_LOGIN")
        return self
