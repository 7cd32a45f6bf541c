"""etcd's own API over HTTP, of the etcd of a local cluster: it listens only inside the cluster's network."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Any, Final

from devcluster import Cluster, DevclusterError

_ETCD: Final = "etcd"
_LIMIT: Final = 60.0
_POST: Final = """\
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], sys.stdin.buffer.read(), 60).read().decode())
"""


def compact(cluster: Cluster) -> None:
    """Drops all revisions but the present one, and gives the freed space back to the disk."""
    _post(cluster, "kv/compaction", revision=_header(cluster)["revision"], physical=True)
    _post(cluster, "maintenance/defragment")


def forget(cluster: Cluster, keys: list[str]) -> None:
    """Deletes these keys, past the API server."""
    for key in keys:
        _post(cluster, "kv/deleterange", key=base64.b64encode(key.encode()).decode())


def set_full(cluster: Cluster, *, full: bool) -> None:
    """Raises the alarm of a full database, or ends it: meanwhile etcd refuses writes."""
    action = "ACTIVATE" if full else "DEACTIVATE"
    _post(
        cluster, "maintenance/alarm", action=action, memberID=_header(cluster)["member_id"], alarm="NOSPACE"
    )


def _header(cluster: Cluster) -> dict[str, str]:
    header: dict[str, str] = _post(cluster, "maintenance/status")["header"]
    return header


def _post(cluster: Cluster, path: str, **body: Any) -> dict[str, Any]:
    """Raises DevclusterError."""
    enter = ["nsenter", "--target", str(cluster.pid(_ETCD)), "--net"]
    url = f"http://127.0.0.1:2379/v3/{path}"
    done = subprocess.run(
        [*enter, sys.executable, "-c", _POST, url],
        input=json.dumps(body),
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        check=False,
    )
    if done.returncode != 0:
        raise DevclusterError(f"etcd refused {path}: {done.stderr.strip()[-500:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
