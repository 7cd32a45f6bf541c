"""The brokers: certificate, size and who has joined."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from fournos.engine.queueing.job import QueueInputs
from fournos.engine.runtime.decision import Present, Unknown
from fournos.systems.miniclusters import start
from fournos.systems.miniclusters.broker import certificate, z85
from tests.unit.systems.miniclusters.actors import NS
from tests.unit.systems.miniclusters.contexts import ctx, job, owner, runs
from tests.unit.systems.miniclusters.stage import Sandbox
from tests.waiting import blocking_until

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def decoded(text: str) -> bytes:
    found = b""
    for place in range(0, len(text), 5):
        word = 0
        for char in text[place : place + 5]:
            word = word * 85 + _ALPHABET.index(char)
        found += word.to_bytes(4, "big")
    return found


def test_the_example_of_rfc_32() -> None:
    assert z85(bytes.fromhex("864FD26FB559F75B")) == "HelloWorld"


@given(st.binary(max_size=64).filter(lambda data: len(data) % 4 == 0))
def test_z85_comes_back(data: bytes) -> None:
    assert decoded(z85(data)) == data


def test_a_length_that_z85_cannot_encode() -> None:
    with pytest.raises(ValueError, match="multiples of four"):
        z85(b"abc")


def keys(text: str) -> dict[str, str]:
    return dict(re.findall(r'^    (public-key|secret-key) = "(.{40})"$', text, re.MULTILINE))


def test_the_public_key_belongs_to_the_secret_one() -> None:
    """The public key is the secret one times the base point 9 (RFC 7748)."""
    secret = bytes(range(1, 33))
    found = keys(certificate(secret, host="flux-sample-0"))
    base = X25519PublicKey.from_public_bytes((9).to_bytes(32, "little"))
    assert decoded(found["secret-key"]) == secret
    assert decoded(found["public-key"]) == X25519PrivateKey.from_private_bytes(secret).exchange(base)


def test_the_file_is_one_of_czmq() -> None:
    text = certificate(bytes(range(32)), host="flux-sample-0")
    sections = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert sections == ["metadata", "curve"]
    assert '    keygen.hostname = "flux-sample-0"' in text


def test_keys_of_another_length() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        certificate(b"short", host="h")


# --- sized ---------------------------------------------------------------------------------------------
# Which size a MiniCluster may have, and which quota it gives back, as tables.

# --- its size ----------------------------------------------------------------------------------------------

BY_ITSELF = {"labels": {"kueue.x-k8s.io/queue-name": "lq"}}
RESERVED: dict[str, Any] = {"conditions": [{"type": "QuotaReserved", "status": "True"}]}
RECLAIMED = {**RESERVED, "reclaimablePods": [{"name": "main", "count": 2}]}


@pytest.mark.parametrize(
    ("requested", "now", "more", "quota", "size", "refused"),
    [
        (3, 2, {}, None, 3, ""),
        (9, 2, {}, None, 4, "size 9 is more than the 4 hosts that Flux began with"),
        (0, 2, {}, None, 1, ""),
        (4, 2, {}, RESERVED, 4, ""),
        (1, 2, {}, RECLAIMED, 1, ""),
        (2, 1, {}, RECLAIMED, 2, ""),
        (
            3,
            2,
            {},
            RECLAIMED,
            2,
            "size stays 2: the quota of 2 pods was given back when it shrank; suspend the MiniCluster to "
            "queue it for all of them again",
        ),
        (4, 3, {}, RECLAIMED, 3, "size stays 3: the quota of 2 pods was given back"),
        (3, 2, BY_ITSELF, None, 2, "size stays 2: the Job is queued by jobLabels, and Kueue would stop it;"),
        (2, 2, BY_ITSELF, None, 2, ""),
    ],
)
def test_which_size_it_may_have(
    requested: int, now: int, more: dict[str, Any], quota: Any, size: int, refused: str
) -> None:
    one = job(size=now)
    one["metadata"] |= more
    inputs = QueueInputs(workloads=(_workload(quota),)) if quota else None
    found = start.allowed(
        ctx(job=one, status={"maximumSize": 4, "size": now}, inputs=inputs, size=requested), one
    )
    assert found.size == size
    assert found.refused.startswith(refused) and bool(found.refused) is bool(refused)


def _workload(status: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": "flux", "namespace": NS, "ownerReferences": owner("MiniCluster", "mc")}
    return {"metadata": meta, "status": status}


# --- its quota ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "cached", "live", "given"),
    [
        (1, (runs(0),), Present((runs(0),)), 3),
        (1, (runs(0), runs(1)), Present((runs(0),)), 3),
        (1, (runs(0),), Present((runs(0), runs(1))), 0),
        (1, (runs(0),), Unknown("", ""), 0),
        (2, (runs(0), runs(1)), Present((runs(0), runs(1))), 0),
    ],
    ids=["gone", "the cache is late", "still there", "unknown", "not shrunk"],
)
def test_quota_is_given_back_once_pods_are_gone(size: int, cached: Any, live: Any, given: int) -> None:
    reported = {"maximumSize": 4, "size": 2}
    inputs = QueueInputs(workloads=(_workload(RESERVED),))
    one = ctx(*cached, job=job(size=size), status=reported, live=live, inputs=inputs)
    assert start.given_back(one) == given


# --- joined --------------------------------------------------------------------------------------------
# The startup probe and the preStop hook under bash, and a worker that comes back.

# --- a worker that is taken away ---------------------------------------------------------------------


_DRAIN = r"""#!/bin/bash
printf '%s\n' "$*" >>"$STAGE/drained"
case "$1 $2" in
"getattr rank") echo 3 ;;
"job list")
  printf '{"id": 1, "ranks": "%s", "a": "b"}\n' "$(head -1 "$STAGE/ranks")"
  sed -i 1d "$STAGE/ranks"
  ;;
"uptime ") cat "$STAGE/uptime" ;;
esac
"""


@pytest.mark.parametrize(
    ("answers", "requested"),
    [(["0-1"], 1), (["0,3", "[2-4]", "4-7"], 3), ([""], 1), (["3", "0\n1-3"], 2)],
)
def test_it_waits_for_its_tasks(stage: Sandbox, answers: list[str], requested: int) -> None:
    stage.put({"lifeCycle": {"preStopExec": "echo bye"}}, size=4)
    stage.executable("flux", _DRAIN)
    stage.executable("sleep", "#!/bin/bash\n")
    (stage.root / "ranks").write_text("\n".join(answers) + "\n")
    (stage.root / "uptime").write_text(" 12:00:00 run 5s,  owner me,  depth 0,  size 4\n")
    with _listening(stage):
        found = stage.run("stop-0", index=3)
    assert found.out == "bye\n"
    calls = (stage.root / "drained").read_text().splitlines()
    assert calls[:3] == ["uptime", "getattr rank", "resource drain 3 taken away"]
    assert calls[3:] == ["job list --states=running --user=all"] * requested, "no Python while it waits"


@pytest.mark.parametrize("shown", ["", " 12:00:00 join 5s,  owner me,  depth 0,  size 4\n"])
def test_a_worker_without_its_lead_is_not_drained(stage: Sandbox, shown: str) -> None:
    """flux uptime asks the lead, and hangs where it is dead."""
    stage.put(size=4)
    stage.executable("flux", _DRAIN)
    (stage.root / "uptime").write_text(shown)
    with _listening(stage):
        assert stage.run("stop-0", index=3).code == 0
    assert (stage.root / "drained").read_text().splitlines() == ["uptime"]


def _uptime(state: str, more: str = "") -> str:
    return f" 12:00:00 {state} 5s,  owner me,  depth 0,  size 4{more}\n"


@pytest.mark.parametrize(
    ("index", "shown", "joined"),
    [
        (0, "run", True),
        (1, "run", True),
        (0, "quorum", False),
        (1, "quorum", True),
        (0, "init", False),
        (1, "join", False),
        (1, "shutdown", False),
        (1, "", False),
    ],
)
def test_ready_is_a_broker_that_flux_says_has_joined(
    stage: Sandbox, index: int, shown: str, joined: bool
) -> None:
    """The socket is there long before: a lead waits for its quorum, a worker for its lead."""
    stage.put(size=4)
    (stage.root / "uptime").write_text(_uptime(shown) if shown else "")
    with _listening(stage):
        found = stage.run("ready-0", index=index)
    assert (found.code == 0) is joined
    assert joined or found.out == f"the broker has not joined yet, its state is {shown or 'not known'}\n"


def test_a_broker_without_a_socket_is_not_asked(stage: Sandbox) -> None:
    stage.put(size=4)
    assert stage.run("ready-0").out == "the broker has not joined yet, its state is none\n"
    assert not (stage.root / "calls").exists()


@contextmanager
def _listening(stage: Sandbox) -> Iterator[None]:
    where = stage.mount / "config" / "run" / "flux"
    where.mkdir(parents=True)
    (stage.mount / "flux-view.sh").write_text("asFlux=''\n")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(where / "local"))
        yield


@pytest.mark.parametrize("drained", [True, False])
def test_a_worker_undrains_its_host_only_if_one_is_drained(stage: Sandbox, drained: bool) -> None:
    """Each call about resources is a Python program, and all workers start at once."""
    stage.put({"command": None}, size=2)
    stage.executable("sleep", "#!/bin/bash\nexec /bin/sleep 0.1\n")
    (stage.root / "uptime").write_text(_uptime("join"))
    with _listening(stage):
        process = stage.start(index=1, SLEEP="60")
        calls = stage.root / "calls"
        blocking_until(lambda: calls.exists() and "uptime" in calls.read_text(), pause=0.05)
        assert "resource" not in calls.read_text()
        before = calls.read_text().count("uptime")
        (stage.root / "uptime").write_text(_uptime("run", ",  1 drained" if drained else ""))
        if drained:
            blocking_until(lambda: "\x1fundrain\x1f" in calls.read_text(), pause=0.05)
        else:
            blocking_until(lambda: calls.read_text().count("uptime") > before, pause=0.05)
        found = stage.terminate(process)
    asked = [call for call in found.calls if call[0] == "resource"]
    assert asked == ([["resource", "undrain", "flux-sample-1"]] if drained else [])
