"""How many requests a cluster's API server has answered, by its own counter."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from bench.operator import samples
from fournos.kube.client import Client

Counts: TypeAlias = Counter[tuple[str, str]]
"""Requests by verb (the API server's words) and resource."""

_NOT_WORK = frozenset({"leases", ""})
"""Leases, and requests that are not about objects (/metrics, /readyz, discovery)."""


async def answered(client: Client) -> Counts:
    """All requests so far, but watches, leases and what is not about objects.

    A watch is counted when it ends, and is renewed whether jobs run or not.
    """
    text = (await client.raw_get("/metrics")).decode()
    wanted = "\n".join(line for line in text.splitlines() if "apiserver_request_total" in line)
    counts: Counts = Counter()
    for name, labels, value in samples(wanted + "\n"):
        if name == "apiserver_request_total" and labels["verb"] != "WATCH":
            resource = labels.get("resource", "")
            if resource not in _NOT_WORK:
                counts[labels["verb"], resource] += int(value)
    return counts
