"""Which error an answer stands for."""

from __future__ import annotations

import json

import pytest

from fournos.engine.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ConnectionLostError,
    ForbiddenError,
    GoneError,
    InvalidError,
    KubeError,
    NoSuchResourceError,
    NotFoundError,
    ServerError,
    TransientError,
    error_from,
    error_of,
)

# --- errors of an API server ------------------------------------------------------------------------

TABLE: list[tuple[int, str, dict[str, object], type[KubeError]]] = [
    (400, "BadRequest", {}, InvalidError),
    (401, "Unauthorized", {}, ForbiddenError),
    (403, "Forbidden", {"name": "x"}, ForbiddenError),
    (404, "NotFound", {"name": "x"}, NotFoundError),
    (404, "NotFound", {}, NoSuchResourceError),
    (405, "MethodNotAllowed", {}, InvalidError),
    (408, "Timeout", {}, ServerError),
    (409, "AlreadyExists", {}, AlreadyExistsError),
    (409, "Conflict", {}, ConflictError),
    (410, "Expired", {}, GoneError),
    (410, "Gone", {}, GoneError),
    (413, "RequestEntityTooLarge", {}, InvalidError),
    (422, "Invalid", {}, InvalidError),
    (429, "TooManyRequests", {}, ServerError),
    (500, "InternalError", {}, ServerError),
    (503, "ServiceUnavailable", {}, ServerError),
    (504, "Timeout", {}, ServerError),
]


@pytest.mark.parametrize(("code", "reason", "details", "kind"), TABLE)
def test_code_and_reason_decide(
    code: int, reason: str, details: dict[str, object], kind: type[KubeError]
) -> None:
    status = {"kind": "Status", "code": code, "reason": reason, "message": "why", "details": details}
    for error in (error_from(code, json.dumps(status).encode()), error_of(status)):
        assert type(error) is kind
        assert (error.status, error.reason, error.message, str(error)) == (code, reason, "why", "why")


def test_what_is_worth_another_try() -> None:
    assert issubclass(ServerError, TransientError)
    assert issubclass(ConflictError, TransientError)
    assert not issubclass(AlreadyExistsError, TransientError)


def test_an_unknown_path_is_answered_in_plain_text() -> None:
    error = error_from(404, b"404 page not found\n")
    assert isinstance(error, NoSuchResourceError)
    assert error.message == "404 page not found"


def test_a_webhooks_refusal_is_about_the_content_not_about_rights() -> None:
    message = 'admission webhook "v.kueue" denied the request: queue is immutable'
    error = error_of({"kind": "Status", "code": 403, "reason": "Forbidden", "message": message})
    assert isinstance(error, InvalidError)


@pytest.mark.parametrize(
    ("header", "detail", "expected"), [("7", None, 7), (None, 3, 3), ("2", 9, 2), ("soon", None, None)]
)
def test_retry_after_from_header_or_details(
    header: str | None, detail: int | None, expected: float | None
) -> None:
    details = {} if detail is None else {"retryAfterSeconds": detail}
    body = json.dumps({"kind": "Status", "code": 429, "message": "m", "details": details}).encode()
    error = error_from(429, body, retry_after=header)
    assert isinstance(error, ServerError)
    assert error.retry_after == expected


@pytest.mark.parametrize("body", [b"", b"<html>bad gateway</html>", b"[1]", b'"x"', b'{"kind":"Pod"}'])
def test_bodies_that_are_no_status(body: bytes) -> None:
    error = error_from(502, body)
    assert isinstance(error, ServerError)
    assert error.message


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (302, b"<html>please log in</html>"),
        (307, b""),
        (400, b"<html><h1>400 Bad request</h1>Your browser sent an invalid request.</html>"),
        (400, b"Client sent an HTTP request to an HTTPS server.\n"),
        (404, b"<html>no such page</html>"),
        (409, b'{"error":"conflict"}'),
        (410, b"gone"),
        (413, b"<html>Request Entity Too Large</html>"),
        (422, b"[]"),
    ],
)
def test_what_no_api_server_has_written_is_worth_another_try(code: int, body: bytes) -> None:
    """A proxy between us and the API server has judged nothing: it must not end a job."""
    error = error_from(code, body)
    assert type(error) is ConnectionLostError
    assert error.status == code
    assert f"{code} is not an API server's" in error.message


@pytest.mark.parametrize("code", [401, 403])
def test_a_refusal_of_the_credentials_needs_no_status(code: int) -> None:
    assert type(error_from(code, b"<html>who are you?</html>")) is ForbiddenError


@pytest.mark.parametrize("wait", ["61", "3599", "7200", "9" * 1000, "inf"])
def test_retry_after_is_a_minute_at_most(wait: str) -> None:
    error = error_from(503, b"", retry_after=wait)
    assert isinstance(error, ServerError)
    assert error.retry_after == 60


@pytest.mark.parametrize(
    "odd",
    [
        {"code": "9" * 5000},
        {"code": None, "details": "x"},
        {"code": [], "message": {"a": 1}, "reason": 7, "details": ["x"]},
        {"code": 429, "details": {"retryAfterSeconds": {"a": 1}}},
    ],
)
def test_a_status_that_is_none_is_an_error_like_any_other(odd: dict[str, object]) -> None:
    status = {"kind": "Status", **odd}
    assert isinstance(error_of(status), ServerError)
    assert isinstance(error_from(500, json.dumps(status).encode()), ServerError)


def test_a_long_message_is_cut() -> None:
    assert len(error_from(500, b"x" * 100_000).message) == 2000
