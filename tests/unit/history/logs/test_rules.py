"""Limits, masks and the first failing line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fournos.engine.kube.resource import Key
from fournos.engine.runtime.redact import redact
from fournos.history.logs.first_failure import FailureScanner, first_failed
from fournos.history.logs.limits import HOUR, LogBudget, LogLimits
from fournos.history.logs.masking import Masking
from fournos.history.logs.models import Log, StartedContainer

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_run_has_so_many_bytes() -> None:
    budget = LogBudget(LogLimits(100, 1000))
    budget.stored(40)
    assert budget.take(60, 0) is None
    cut = budget.take(1, 5 * HOUR)
    assert cut is not None and cut.again_at is None
    assert "more than 0.0001 MB" in cut.mark


def test_and_so_many_within_an_hour() -> None:
    budget = LogBudget(LogLimits(1_000_000, 100))
    assert budget.take(100, 50.0) is None
    cut = budget.take(1, 60.0)
    assert cut is not None and cut.again_at == 50.0 + HOUR and "within an hour" in cut.mark
    assert budget.take(100, cut.again_at) is None


TRACEBACK = """\
Traceback (most recent call last):
  File "bench.py", line 3, in <module>
    run()
torch.OutOfMemoryError: CUDA out of memory
cleaning up: error""".splitlines()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["start", *TRACEBACK], (4, "torch.OutOfMemoryError: CUDA out of memory")),
        (["an error may be harmless", "fatal: no repository", "x"], (1, "fatal: no repository")),
        (["0 errors", "request failed", "goodbye"], (1, "request failed")),
        (["errors: 0, no failures", "last words", ""], (1, "last words")),
        (["/bin/sh: fio: not found"], (0, "/bin/sh: fio: not found")),
        (
            ["panic: runtime error: index out of range", "goroutine 1"],
            (0, "panic: runtime error: index out of range"),
        ),
        (["ok", "ValueError: x", "KeyError: y"], (1, "ValueError: x")),
        (["Traceback (most recent call last):"], (0, "Traceback (most recent call last):")),
        (
            ["Traceback (most recent call last):", *["  more"] * 500],
            (0, "Traceback (most recent call last):"),
        ),
        ([], None),
        (["", " "], None),
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_the_first_line_that_shows_the_failure(
    lines: list[str], expected: tuple[int, str] | None, size: int
) -> None:
    scanner = FailureScanner()
    for at in range(0, len(lines), size):
        scanner.feed(at, lines[at : at + size])
    assert scanner.found() == expected


def a_log(task: str, *, code: int | None, seconds: int = 0, position: int = 0, line: int | None = 0) -> Log:
    ended = None if code is None else BEGAN + timedelta(seconds=seconds)
    container = StartedContainer(
        Key("ns", "pod"), "uid", f"step-{position}", task, 1, position, BEGAN, ended, code
    )
    return Log(container, lines=1, failing_line=line)


def test_the_container_that_failed_first_counts() -> None:
    later = a_log("later", code=1, seconds=9)
    skipped = a_log("skipped", code=1, seconds=3, position=1)
    first = a_log("first", code=2, seconds=3)
    fine, running = a_log("fine", code=0, line=None), a_log("running", code=None, line=None)
    silent = a_log("silent", code=1, line=None)
    assert first_failed([later, skipped, first, fine, running, silent]) == first
    assert first_failed([fine, running, silent]) is None


KEY = ["-----BEGIN RSA PRIVATE KEY-----", "MIIEow", "abc", "-----END RSA PRIVATE KEY-----"]


def test_secrets_are_hidden_and_lines_stay_lines() -> None:
    masking = Masking()
    lines = ["hello", "export TOKEN=abcdefgh", "x", "Authorization: Bearer abcdefghijkl"]
    assert masking.lines(lines) == [
        "hello",
        "export TOKEN=<hidden>",
        "x",
        "Authorization: Bearer <hidden>",
    ]
    plain = ["throughput 12 tok/s", "done"]
    assert masking.lines(plain) is plain


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_key_of_many_lines_is_hidden_wherever_the_pieces_end(cut: int) -> None:
    masking = Masking()
    lines = ["key:", *KEY, "after"]
    found = [*masking.lines(lines[:cut]), *masking.lines(lines[cut:])]
    assert found == ["key:", *["<hidden>"] * 4, "after"]


def test_a_key_without_an_end_does_not_hide_the_rest_for_ever() -> None:
    masking = Masking()
    assert masking.lines([*KEY[:2], *["x"] * 300])[-1] == "x"


def test_a_certificate_on_one_line() -> None:
    line = "ca: -----BEGIN CERTIFICATE----- abc -----END CERTIFICATE----- rest"
    assert Masking().lines([line, "next"]) == ["ca: <hidden> rest", "next"]


SECRETS = (
    "password: hunter22", "DB_PASSWD=hunter22", "passphrase is hunter22", "token: hunter22",
    "credentials=hunter22", "secret_key: hunter22", "api-key=hunter22", "client-key-data: hunter22",
    "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0", "Bearer hunter2222", "Basic hunter2222", "curl -u me:hunter22 x",
    "--proxy-user me:hunter22", '"auth": "hunter2222"', "https://me:hunter22@host", "data: {a: hunter22}",
    f"kubeconfig: {'A' * 50}", f"ghp_{'A' * 20}", f"github_pat_{'A' * 20}", f"glpat-{'A' * 20}",
    f"hvs.{'A' * 20}", f"AKIA{'A' * 16}", f"ASIA{'A' * 16}", f"xoxb-{'A' * 20}", f"sha256~{'A' * 20}",
    f"hf_{'A' * 20}", f"sk-{'A' * 20}",
)  # fmt: skip


@pytest.mark.parametrize("line", SECRETS)
def test_everything_that_is_redacted_elsewhere_is_hidden_in_logs(line: str) -> None:
    assert redact(line) != line
    assert Masking().lines([line]) == [redact(line)]
