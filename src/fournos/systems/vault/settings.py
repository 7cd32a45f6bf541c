"""Settings of the Vault sync: VAULT_… variables as Vault's own tools name them, FOURNOS_… for the Secrets."""

from __future__ import annotations

from typing import Any, Literal, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from fournos.engine.runtime.settings_types import with_placeholder


class VaultSettings(BaseSettings):
    """Which directory of which Vault becomes the Secrets of which namespace (the Fournos README)."""

    # Not populated by field names: these would be variables, too, and NAMESPACE means something else.
    model_config = SettingsConfigDict(extra="ignore")

    addr: str = Field(
        min_length=1,
        validation_alias="VAULT_ADDR",
        description="Vault server URL (required)",
    )
    token: SecretStr = Field(
        min_length=1,
        validation_alias="VAULT_TOKEN",
        description="A token that may list and read the directory (required)",
    )
    secret_path: str = Field(
        min_length=1,
        validation_alias="VAULT_SECRET_PATH",
        description="Directory path within the KV engine (required)",
    )
    kv_mount: str = Field(
        "kv",
        min_length=1,
        validation_alias="VAULT_KV_MOUNT",
        description="Mount point of the KV engine",
    )
    kv_version: Literal["auto", "1", "2"] = Field(
        "auto",
        validation_alias="VAULT_KV_VERSION",
        description="Version of the KV engine; auto asks Vault, and takes 2 when Vault does not say",
    )
    vault_namespace: str = Field(
        "",
        validation_alias="VAULT_NAMESPACE",
        description="Vault Enterprise namespace",
    )
    ca_cert: str = Field(
        "",
        validation_alias="VAULT_CACERT",
        description="File with the authority of Vault's certificate, when the system does not know it",
    )
    timeout_sec: float = Field(
        10.0,
        gt=0,
        validation_alias="FOURNOS_VAULT_TIMEOUT_SEC",
        description="Limit for one request to Vault (seconds); a failed one is tried three times more",
    )
    namespace: str = Field(
        "psap-secrets",
        min_length=1,
        validation_alias="FOURNOS_SECRETS_NAMESPACE",
        description="Namespace of the Secrets",
    )
    secret_pattern: str = Field(
        "vault-{entry}",
        validation_alias="FOURNOS_VAULT_SECRET_PATTERN",
        description="Pattern for naming vault-synced Secrets",
    )

    @field_validator("addr")
    @classmethod
    def _is_url(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be a URL like https://vault.example.com")
        # The address is written to an annotation, where a password in it would be readable.
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))

    @field_validator("secret_path", "kv_mount")
    @classmethod
    def _without_outer_slashes(cls, value: str) -> str:
        stripped = value.strip("/")
        if not stripped:
            raise ValueError("must name a path, not only slashes")
        return stripped

    @field_validator("secret_pattern")
    @classmethod
    def _names_entry(cls, value: str) -> str:
        return with_placeholder(value, "entry", example="vault")

    @classmethod
    def of(cls, **values: Any) -> Self:
        """Returns the settings with these values by field name; the others are those of the environment."""
        return cls(**{str(cls.model_fields[name].validation_alias): value for name, value in values.items()})

    def secret_name(self, entry: str) -> str:
        return self.secret_pattern.replace("{entry}", entry)

    @property
    def source_path(self) -> str:
        """The mount and the directory, as written in annotations."""
        return f"{self.kv_mount}/{self.secret_path}"
