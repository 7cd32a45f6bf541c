"""How this machine's package clients reach their registries: what apt, pip and Go read, found at run time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_VARIABLES = re.compile(
    r"PIP_\w+"
    r"|GO(PROXY|NOPROXY|SUMDB|NOSUMDB|PRIVATE|INSECURE|AUTH|ENV|VCS)|NETRC"
    r"|(https?|all|no|ftp)_proxy|(HTTPS?|ALL|NO|FTP)_PROXY"
    r"|\w*(CERT|CERTS|CERT_FILE|CERT_DIR|CA_BUNDLE|CAINFO)"
)
_FILES = (
    "/etc/apt",
    "/usr/share/keyrings",
    "/etc/pip.conf",
    "/etc/xdg/pip",
    "~/.config/pip",
    "~/.pip",
    "~/.config/go",
    "~/.netrc",
    "/etc/ssl/certs",
    "/usr/local/share/ca-certificates",
)


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variables that configure where and how a package client downloads."""
    return {name: value for name, value in environment.items() if _VARIABLES.fullmatch(name)}


def files(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Returns every file or directory that a package client reads, including those that the variables name.

    None of them lies below another one, so each can be mounted on its own.
    """
    named = {Path(str(home) + path[1:] if path.startswith("~") else path) for path in _FILES}
    for value in variables(environment).values():
        named |= {Path(word) for word in re.split(r"[\s:]+", value) if word.startswith("/")}
    there = {path for path in named if path.exists()}
    return sorted(path for path in there if not there & set(path.parents))
