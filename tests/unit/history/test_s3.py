"""S3 without a server: addresses, the meaning of errors, and an installation without its extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fournos.engine.runtime.part import UnsupportedError
from fournos.history.blobs import BlobsUsageError, S3Location, check_blobs, open_blobs
from fournos.history.blobs.location import parse_url
from fournos.history.blobs.s3_errors import FIXES, NO_KEY, code_of, explained
from fournos.history.part import verify
from fournos.history.settings import HistorySettings


@pytest.mark.parametrize(
    ("endpoint", "path_style", "address"),
    [
        ("", True, ""),
        ("", False, ""),
        ("https://minio:9000", True, "https://minio:9000"),
        ("https://minio:9000", False, "https://perf.minio:9000"),
    ],
)
def test_the_bucket_is_in_the_path_or_in_the_name_of_the_server(
    endpoint: str, path_style: bool, address: str
) -> None:
    assert S3Location("perf", endpoint=endpoint, path_style=path_style).address == address


@pytest.mark.parametrize(
    ("url", "parts"),
    [("s3://perf", ("perf", "")), ("s3://perf/", ("perf", "")), ("s3://perf/a/b/", ("perf", "a/b"))],
)
def test_a_url_is_a_bucket_and_a_prefix(url: str, parts: tuple[str, str]) -> None:
    assert parse_url(url) == parts


@pytest.mark.parametrize(
    "url", ["s3://ab", "s3://Perf", "s3://perf//x", "s3://perf?x=1", "gs://perf", "s3://-ab"]
)
def test_any_other_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"s3://bucket|the prefix"):
        parse_url(url)


@pytest.mark.parametrize("code", FIXES)
def test_an_error_that_lasts_has_its_fix(code: str) -> None:
    text = f"GET https://s3/b/k - Server returned non-2xx status code: 403 Forbidden: <Code>{code}</Code>"
    message, lasts = explained(text)
    assert message == f"{code}: {FIXES[code]}" and lasts


@pytest.mark.parametrize(
    ("text", "message", "lasts"),
    [
        ("HTTP error: error sending request", "it cannot be reached", False),
        (
            "Server returned non-2xx status code: 503 Slow: <Error><Code>SlowDown</Code>",
            "it answers SlowDown (status 503)",
            False,
        ),
        ("Server returned non-2xx status code: 502 Bad: <html>", "it answers an error (status 502)", False),
        ("request failed for key a: Access Denied. (code: AccessDenied)", FIXES["AccessDenied"], True),
        ("Received redirect without LOCATION, this normally indicates an incorrectly configured region",
         FIXES["PermanentRedirect"], True),
        ("HTTP error: invalid peer certificate: UnknownIssuer", "FOURNOS_HISTORY_S3_CA_FILE", True),
        ("PUT http://169.254.169.254/latest/api/token in 1ms", "no credentials are found", True),
        (
            "Error performing POST https://sts.eu-central-1.amazonaws.com/?Action=AssumeRoleWithWebIdentity: "
            "<Code>AccessDenied</Code>",
            "the role's credentials are refused (AccessDenied): check the role's trust",
            True,
        ),
    ],
)  # fmt: skip
def test_what_an_error_means(text: str, message: str, lasts: bool) -> None:
    found, found_lasts = explained(text)
    assert message in found
    assert found_lasts is lasts


def test_the_code_of_a_key_without_a_blob() -> None:
    assert code_of("Object at location x not found: 404: <Error><Code>NoSuchKey</Code></Error>") == NO_KEY
    assert code_of("Object at location x not found: 404 Not Found:") == ""


async def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    monkeypatch.delitem(sys.modules, "fournos.history.blobs.s3", raising=False)
    with pytest.raises(
        BlobsUsageError, match=r"s3://perf needs obstore\.store: pip install '\.\[history,s3\]'"
    ):
        open_blobs(S3Location("perf"))
    monkeypatch.setenv("FOURNOS_HISTORY_BLOBS", "s3://perf")
    api: Any = None
    with pytest.raises(UnsupportedError, match=r"pip install '\.\[history,s3\]'"):
        await verify(HistorySettings(), api)


async def test_a_directory_needs_no_check(tmp_path: Path) -> None:
    assert await check_blobs(tmp_path / "blobs") == []
    assert not (tmp_path / "blobs").exists()


def test_a_directory_loads_no_library_of_s3() -> None:
    code = (
        "import sys, fournos.client, fournos.history.part, fournos.history.blobs as b\n"
        "from pathlib import Path\n"
        "b.open_blobs(Path('/x')); print('obstore' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
