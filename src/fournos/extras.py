"""How a missing extra is installed.

Never from a package index: nothing there of this name is ours.
"""

from __future__ import annotations


def remedy(extras: str) -> str:
    """Returns what to do if packages of `extras` (such as "history,postgres") are missing."""
    wheel = f"'./fournos-VERSION-py3-none-any.whl[{extras}]'"
    return f"pip install '.[{extras}]' in a checkout, or {wheel} of a release"
