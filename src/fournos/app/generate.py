"""Writes what is generated from the typed API: CRDs and reference pages.

python -m fournos.app.generate            write
python -m fournos.app.generate --check    exit 1 and show a diff if a file differs
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from annotated_types import Gt
from pydantic import AliasChoices
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from fournos.app.parts import PARTS, kinds
from fournos.app.parts import reference as metrics_page
from fournos.engine.api.crd import crd
from fournos.engine.api.schema_readers import reference
from fournos.engine.runtime.part import Part
from fournos.engine.runtime.process import ProcessSettings
from fournos.engine.runtime.webhook.registration import WebhookSettings, configurations
from fournos.systems.vault.sync import VaultSettings

# --- the page of settings ---------------------------------------------------------------------------
# The reference page of all settings, generated from the settings classes.

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


HEADER = "# Generated from src/fournos/api by `python -m fournos.app.generate`. Do not edit.\n"
CRDS = {
    "fournos.dev": "manifests/crd.yaml",
    "workload.codeflare.dev": "deploy/appwrapper/crd.yaml",
    "flux-framework.org": "deploy/minicluster/crd.yaml",
}
"""API group → the one file with its CRDs; the chart has links to them."""
WEBHOOKS_HEADER = HEADER.replace("src/fournos/api", "the systems' webhooks")


def files() -> dict[str, str]:
    """Returns the content of each generated file, by its path in the repository."""
    manifests: dict[str, list[str]] = {}
    pages: dict[str, str] = {}
    for definition, rules in kinds():
        resource = crd(definition, rules=rules)
        text = yaml.safe_dump(resource, sort_keys=False, width=110, allow_unicode=True)
        manifests.setdefault(CRDS[definition.resource.group], []).append(text)
        pages[f"docs/reference/{definition.singular}.md"] = reference(definition, rules)
    return {
        **{path: HEADER + "---\n".join(texts) for path, texts in manifests.items()},
        **dict(_webhooks(part) for part in PARTS.values() if part.webhook_manifest),
        **pages,
        "docs/reference/settings.md": settings_page(),
        "docs/reference/metrics.md": metrics_page(),
    }


def _webhooks(part: Part[Any]) -> tuple[str, str]:
    """Returns a part's webhook configurations without CA bundles, which the operator writes at runtime."""
    manifest = part.webhook_manifest
    assert manifest is not None
    webhooks = part.webhooks(manifest.settings())
    found = configurations(webhooks, manifest.service, owner=manifest.service.namespace)
    text = yaml.safe_dump_all(found.values(), sort_keys=False, width=110)
    return manifest.path, WEBHOOKS_HEADER + text


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fournos.app.generate", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 and show what differs")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the repository (default: here)")
    options = parser.parse_args(arguments)
    drifted = False
    for name, text in files().items():
        path = options.root / name
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if before == text:
            continue
        drifted = True
        if options.check:
            sys.stdout.writelines(
                difflib.unified_diff(
                    before.splitlines(keepends=True),
                    text.splitlines(keepends=True),
                    name,
                    f"{name} (generated)",
                )
            )
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return 1 if drifted and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
