"""A client certificate of a test authority, and the end of a process that gives credentials."""

from __future__ import annotations

import os
import select

from tests.fakes.pki import Authority

AUTHORITY = Authority("test-ca")


PAIR = AUTHORITY.issue("client")


def ends(process: int) -> bool:
    """Whether a process ends within some seconds; the death of a killed orphan takes a moment."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 5)[0])
    finally:
        os.close(handle)
