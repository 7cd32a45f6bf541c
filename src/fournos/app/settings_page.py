"""The reference page of all settings, generated from the settings classes."""

from __future__ import annotations

import re
from typing import get_args

from annotated_types import Gt
from pydantic import AliasChoices
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from fournos.app.parts import PARTS
from fournos.engine.runtime.process import ProcessSettings
from fournos.engine.runtime.webhook.registration import WebhookSettings
from fournos.systems.vault.sync import VaultSettings

SECTIONS: tuple[tuple[str, type[BaseSettings]], ...] = (
    ("Every `fournos run`", ProcessSettings),
    *((part.title, part.settings) for part in PARTS.values()),
    ("Admission webhooks (of each system that has some)", WebhookSettings),
    ("Vault sync (`hacks/sync_vault_secrets.py`)", VaultSettings),
)

ELSEWHERE = (
    ("`FOURNOS_OWNER`, `FOURNOS_DEBUG`", "the command `fournos`: [its environment](cli.md#environment)"),
    (
        "`FOURNOS_CACHE`, `FOURNOS_STATE`",
        "[local clusters](../devcluster.md): where programs and records are",
    ),
)
"""Variables that no settings class reads, and where they are explained."""


def settings_page() -> str:
    """Returns the page in Markdown: one table per program, one row per variable."""
    parts = [
        "# Settings",
        "",
        "All settings are environment variables.  A value that cannot be used is refused at start, by name.",
    ]
    for title, settings in SECTIONS:
        parts += ["", f"## {title}", "", "| Variable | Default | Description |", "|---|---|---|"]
        parts += [_row(variable, field) for variable, field in variables(settings).items()]
    parts += ["", "## Elsewhere", "", "| Variable | Of what |", "|---|---|"]
    parts += [f"| {variables} | {where} |" for variables, where in ELSEWHERE]
    return "\n".join(parts) + "\n"


def variables(settings: type[BaseSettings]) -> dict[str, FieldInfo]:
    """Returns the environment variables of a class of settings with their fields."""
    prefix = settings.model_config.get("env_prefix") or ""
    return {_variable(name, field, prefix): field for name, field in settings.model_fields.items()}


def _row(variable: str, field: FieldInfo) -> str:
    default = "required" if field.is_required() else _written(field.default)
    text = (field.description or "").replace("|", "\\|")
    limit = next((f"; more than {m.gt}" for m in field.metadata if isinstance(m, Gt)), "")
    choices = [str(choice) for choice in get_args(field.annotation) if isinstance(choice, str)]
    allowed = f"; one of {', '.join(choices)}" if choices else ""
    return f"| `{variable}` | {default} | {text}{limit}{allowed} |"


def _written(value: object) -> str:
    """Returns the value as one writes it into a variable, in Markdown; "" if it is empty."""
    match value:
        case "":
            return ""
        case bool():
            return f"`{str(value).lower()}`"
        case float() if value.is_integer():
            return f"`{int(value)}`"
    return f"`{value}`"


def _variable(name: str, field: FieldInfo, prefix: str) -> str:
    alias = field.validation_alias
    if isinstance(alias, str):
        return alias
    if isinstance(alias, AliasChoices):
        return next(
            choice for choice in alias.choices if isinstance(choice, str) and re.fullmatch(r"[A-Z_]+", choice)
        )
    return f"{prefix}{name}".upper()
