"""Text and documents as they are stored."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fournos.history.store.rows import INDEXED, clean, folded, indexed, message, pack, unpack

SECRET = "hunter2hunter2"


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_can_be_stored(text: str) -> None:
    assert "\x00" not in clean(text)
    clean(text).encode()
    assert len(clean(text)) == len(text)
    assert clean(clean(text)) == clean(text)
    assert len(indexed(text)) <= INDEXED


NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {clean(key): cleaned(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [cleaned(each) for each in value]
    return clean(value) if isinstance(value, str) else value


@settings(deadline=None, max_examples=50)
@given(JSON)
def test_any_document_without_secrets_comes_back(document: Any) -> None:
    if "hidden" not in repr(found := unpack(pack(document))):
        assert found == cleaned(document)


@pytest.mark.parametrize(
    "document",
    [
        {"password": SECRET},
        {"args": {"nested": [{"apiKey": SECRET}]}},
        {"env": [{"name": "DB_PASSWORD", "value": SECRET}]},
        {"tokens": {"token": [SECRET]}},
        {"note": f"the password is {SECRET}"},
        {"command": ["curl", f"https://user:{SECRET}@host/"]},
        [f"Bearer {SECRET}"],
        {"long": "x" * 500 + f" token={SECRET}"},
        {"password": SECRET * 50},
    ],
)
def test_a_secret_is_hidden_wherever_it_is(document: Any) -> None:
    assert SECRET not in repr(unpack(pack(document)))


@pytest.mark.parametrize(
    "document",
    [
        {"secretRefs": ["registry", "model"], "name": "job-1"},
        {"env": [{"name": "MODE", "value": "fast"}, {"name": "N", "value": 3}]},
        {"tokens": 512, "max_tokens": 1.5, "tokenizer": "llama"},
        {"image": "quay.io/x/y@sha256:0123456789abcdef"},
    ],
)
def test_what_is_no_secret_stays(document: Any) -> None:
    assert unpack(pack(document)) == document


def test_a_message_is_bounded() -> None:
    assert message("a" * 10_000) == "a" * 4096 + "…"
    assert message("short") == "short"


def test_a_search_compares_without_case() -> None:
    assert folded("Job-1", "STRASSE ß") == "job-1\nstrasse ss"
    assert folded("job", "") == "job"
