"""Kueue's Configuration in a file, as FOURNOS_MULTIKUEUE_CONFIG_FILE names it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from fournos.systems.multikueue.settings import MultiKueueSettings


def configuration(*kinds: str, directory: Path | None = None, **section: Any) -> str:
    """Writes the file; returns its path."""
    frameworks = [{"name": kind} for kind in kinds]
    path = (directory or Path(tempfile.mkdtemp(prefix="fournos-"))) / "configuration.yaml"
    path.write_text(json.dumps({"multiKueue": {"externalFrameworks": frameworks, **section}}))
    return str(path)


def settings(*kinds: str, **section: Any) -> MultiKueueSettings:
    return MultiKueueSettings(config_file=configuration(*kinds, **section))
