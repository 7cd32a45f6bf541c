"""Reads the number of requests that an API server has answered, from its own metrics."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from bench.operator import samples
from fournos.engine.kube.client import Client

Counts: TypeAlias = Counter[tuple[str, str]]
"""The number of requests by verb (as the API server names it) and resource."""

_NOT_WORK = frozenset({"leases", ""})
"""Not counted: leases, and requests without a resource (/metrics, /readyz, discovery)."""


async def answered(client: Client) -> Counts:
    """Returns all requests so far, without watches, leases and requests without a resource.

    Watches are left out: the server counts a watch when it ends, and watches are renewed also without jobs.
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
