"""The hook of the documentation's site (mkdocs.yml): what MkDocs does not do by itself.

A link that leaves docs/ works on GitHub; on the site it leads to the file in the repository, which must
exist. A page loads nothing from other hosts. What is wrong is a warning, and fails the build (`strict`).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from mkdocs.plugins import get_plugin_logger

from dev import cli_reference

BRANCH: Final = "main"
CLI: Final = "reference/cli.md"
GENERATED: Final = "reference/"
"""Pages that `make manifests` writes; their index is written by hand."""
_OUTWARD: Final = re.compile(r"\]\((?P<path>(?:\.\./)+[^)#\s]*)(?P<anchor>#[^)\s]*)?\)")
_LOADED: Final = re.compile(
    r'<(?:script|img|iframe)[^>]+src="(https?:[^"]+)|<link[^>]+stylesheet[^>]+"(https?:[^"]+)'
)
_FACTS: Final = 'data-md-component="source"'
"""For this element the theme's script asks GitHub's API; docs_theme/partials/source.html is without it."""
_log = get_plugin_logger("docs_site")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Called by MkDocs with the text of each page; returns what is rendered."""
    source = str(page.file.src_uri)
    if source.startswith(GENERATED) and not source.endswith("README.md"):
        page.edit_url = None
    if source == CLI:
        markdown += "\n" + cli_reference.page()
    root = Path(config.docs_dir).parent
    return to_repository(markdown, source, root, str(config.repo_url).rstrip("/"), _log.warning)


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Called by MkDocs with the HTML of each page."""
    for address in loaded(output):
        _log.warning(f"Doc file '{page.file.src_uri}' loads '{address}': assets are local")
    return output


def to_repository(
    markdown: str, source: str, root: Path, repository: str, warn: Callable[[str], None]
) -> str:
    """Returns the page with its links out of docs/ as addresses of the repository.

    `source` is the page's path in docs/. `warn` is called for each link to a file that does not exist.
    """

    def replaced(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(source), link["path"]))
        if target == "docs" or target.startswith("docs/"):
            return link[0]
        file = root / target
        if not file.exists():
            warn(
                f"Doc file '{source}' contains a link '{link['path']}', but the repository has no '{target}'"
            )
        kind = "tree" if file.is_dir() else "blob"
        return f"]({repository}/{kind}/{BRANCH}/{target}{link['anchor'] or ''})"

    return _OUTWARD.sub(replaced, markdown)


def loaded(html: str) -> list[str]:
    """Returns the addresses on other hosts from which a page loads anything."""
    facts = ["https://api.github.com"] if _FACTS in html else []
    return facts + [script or style for script, style in _LOADED.findall(html)]
