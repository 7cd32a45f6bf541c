"""Settings of the webhook server (FOURNOS_WEBHOOK_… environment variables)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from fournos.engine.api.durations import parse_duration
from fournos.engine.runtime.webhook.certificates import Terms
from fournos.engine.runtime.webhook.registration import Address, Service, Target


class WebhookSettings(BaseSettings):
    """Every field is one variable: `FOURNOS_WEBHOOK_` + the field's name in capitals."""

    model_config = SettingsConfigDict(env_prefix="FOURNOS_WEBHOOK_", extra="ignore")

    service: str = Field(
        "",
        description="Service in the operator's namespace by which the API server reaches the webhooks; "
        "without it and without an address none are served",
    )
    url: str = Field(
        "",
        description="Instead: address at which the API server reaches this process itself, for development",
    )
    port: Annotated[int, Field(ge=0, le=65535)] = Field(9443, description="Port that the webhooks listen at")
    host: str = Field("", description="Address that they listen at; without it, all")
    client_authorities: str = Field(
        "",
        description="File of certificate authorities (PEM): whoever asks must show a client certificate of "
        "one of them, as an API server does that is started with --admission-control-config-file",
    )
    secret: str = Field(
        "fournos-webhook-cert", min_length=1, description="Secret of the certificate, in that namespace"
    )
    certificate_lifetime: str = Field("2160h", description="How long a certificate is valid")
    certificate_renewal: str = Field("720h", description="How long before its end the next one is made")
    certificate_settling: str = Field(
        "1m",
        description="How long the API server has known the next certificate's authority before it is used",
    )

    @field_validator("certificate_lifetime", "certificate_renewal", "certificate_settling")
    @classmethod
    def _is_duration(cls, value: str) -> str:
        if parse_duration(value).total_seconds() <= 0:
            raise ValueError("must be more than 0")
        return value

    @field_validator("url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        if value:
            Address(value)
        return value

    @model_validator(mode="after")
    def _in_order(self) -> WebhookSettings:
        if self.service and self.url:
            raise ValueError("set service or url, not both")
        terms = self.terms
        if not terms.settle < terms.renew_before < terms.lifetime:
            raise ValueError("needed: certificate_settling < certificate_renewal < certificate_lifetime")
        return self

    @property
    def terms(self) -> Terms:
        return Terms(
            parse_duration(self.certificate_lifetime),
            parse_duration(self.certificate_renewal),
            parse_duration(self.certificate_settling),
        )

    def target(self, namespace: str) -> Target | None:
        """None: no webhooks are served."""
        if self.url:
            return Address(self.url)
        return Service(namespace, self.service) if self.service else None
