"""Random text of others for every public entry: it is read or refused as documented, in little time.

`make fuzz` runs the same for an hour (FUZZ_MINUTES), with other texts each time.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

import orjson
import pytest
import yaml
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from fournos.client.submission import axis
from fournos.engine.api.values import parse_duration, parse_quantity
from fournos.engine.kube import formats
from fournos.engine.kube.errors import CredentialsError, error_from
from fournos.engine.kube.untrusted_kubeconfig import check as check_kubeconfig
from fournos.engine.kube.untrusted_kubeconfig import claims, time_of
from fournos.engine.queueing.podsets import RequestsError, parse_requests
from fournos.engine.runtime.logs import redact
from fournos.engine.runtime.webhook.review import GarbledError
from fournos.engine.runtime.webhook.review import parse as parse_review
from fournos.history.api.identity import front_proxy
from fournos.history.logs.collector import MaskedText, lines_of
from fournos.history.logs.stored import failing_line
from fournos.history.results.models import Kpi, Test
from fournos.history.results.read import read_file
from fournos.history.results.tekton import tekton_results
from fournos.history.store.rows import message, pack, unpack
from fournos.insight.errors import ManifestError
from fournos.systems.jobs.names import RESULT_NAME
from fournos.systems.multikueue.config import BadConfigError
from fournos.systems.multikueue.config import read as read_kueue_config
from fournos.web.forms import INPUTS, OTHERS, wanted
from fournos.web.pages.logs import plain
from fournos.web.requests import _headers

MINUTES: Final = float(os.environ.get("FOURNOS_FUZZ_MINUTES", "0"))
"""For all entries; 0: the few texts of the unit tests."""
_EXAMPLES: Final = 40
_BUDGET: Final = 2.0
"""Seconds of CPU for one text."""
_NOW: Final = datetime(2030, 1, 1, tzinfo=UTC)

_WORDS: Final = (
    "eyJ", "-----BEGIN ", "CERTIFICATE", "PRIVATE KEY", "-----", "password", "token=", "://a:", "Bearer ",
    "Error: ", "Traceback (most recent call last):", "\x1b[", "\x1b]", "data={", '"auth":"', "--", "-u a",
    "!!int ", "!!bool ", "!!timestamp ", "!!float ", "!!omap ", "!!set ", "!!binary ", "<<: ", "&a ", "*a",
    "1:59", "0001-01-01T00:00:00+23:59", "2001-13-45", "NaN", "1e999", "0x", ".inf", "\\ud800", "\x00",
    "\ud800", "[", "]", "{", "}", ": ", ", ", "- ", "? ", "| ", "> ", "'", '"', "\n", "\r", "\t", "  ", "#",
    "tests", "kpis", "kpi_id", "value", "labels", "metadata", "clusters", "users", "contexts", "name",
)  # fmt: skip
"""What the parsers and patterns look for."""
_pieces = st.lists(st.sampled_from(_WORDS) | st.text(max_size=4), max_size=12).map("".join)
texts = st.builds(lambda a, b, times: a + b * times, _pieces, _pieces, st.sampled_from([1, 2, 40, 3000]))
"""Pieces, some again and again: what is quadratic or recursive shows there."""
numbers = st.integers() | st.floats() | st.just(10**400)
_names = st.sampled_from(
    [*Test.model_fields, *Kpi.model_fields, "tests", "id", "completion", "data_points", "x"]
)
values = st.recursive(
    st.none() | st.booleans() | numbers | _pieces,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_names | _pieces, inner, max_size=5),
    max_leaves=20,
)
documents = (
    values.map(json.dumps) | values.map(lambda value: yaml.safe_dump(value, allow_unicode=True)) | texts
)


def _kubeconfig(parts: tuple[Any, ...]) -> str:
    server, token, name, extra = parts
    return json.dumps(
        {
            "clusters": [{"name": "a", "cluster": {"server": server, "extensions": extra}}],
            "users": [{"name": "a", "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": "a", "user": "a"}}],
        }
    )


kubeconfigs = (
    st.tuples(_pieces | st.just("https://a:6443"), values | _pieces, values, values).map(_kubeconfig)
    | documents
)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _results(text: str) -> None:
    for name in ("a.json", "a.jsonl", "a.yaml", "a"):
        found = read_file(_bytes(text), name)
        assert found.tests or found.problems or found.warnings or "skip" in text
        for one in (*found.problems, *found.warnings):
            str(one).encode()
        for record in found.tests:
            unpack(pack(record.model_dump(mode="json")))


def _tekton(text: str) -> None:
    for value in (text, [text, text], {text: text}):
        results = [{"name": RESULT_NAME, "value": value}]
        tekton_results({"metadata": {"name": "a"}, "status": {"results": results}})


def _log(text: str) -> None:
    text_ = MaskedText(10**6)
    text_.add(_bytes(text))
    lines = list(lines_of(text_.packed()))
    failing_line(lines)
    for line in lines:
        assert "\x1b" not in plain(line)


def _texts(text: str) -> None:
    redact(text)
    assert len(message(text)) <= 4097
    unpack(pack({"status": {"message": text}, text: [text]}))


def _status(text: str) -> None:
    body = _bytes(text)
    status = {"kind": "Status", "code": 422, "message": text.encode(errors="replace").decode()}
    for sent in (body, orjson.dumps(status)):
        str(error_from(422, sent, retry_after=text))
    formats.loads(body)


def _form(text: str) -> None:
    for form in ({one.path: text for one in (*INPUTS, OTHERS)}, {"executionEngine": text, "owner": "a"}):
        asked = wanted({**form, "labels": text, "name": text}, {}, "ns")
        assert asked.wrong or asked.manifest["spec"]
    axis(text)


def _yaml(text: str) -> None:
    for document in formats.load_all(text):
        formats.dump(document, width=80)


def _checked_kubeconfig(text: str) -> None:
    check_kubeconfig(_bytes(text), now=_NOW)


def _token(text: str) -> None:
    time_of(claims(text), "exp")


def _headers_of(text: str) -> None:
    for value in _headers(text.encode(errors="replace").decode()).values():
        assert not {"\r", "\n"} & set(value)
    urlencode({"a": text.encode(errors="replace")})
    front_proxy({"data": {"requestheader-client-ca-file": text, "requestheader-allowed-names": text}})


@dataclass(frozen=True, slots=True)
class Entry:
    texts: st.SearchStrategy[str]
    call: Callable[[str], object]
    refusals: tuple[type[Exception], ...] = ()


ENTRIES: Final[Mapping[str, Entry]] = {
    "results": Entry(documents, _results),
    "results of Tekton": Entry(documents, _tekton),
    "logs": Entry(texts, _log),
    "stored texts": Entry(texts, _texts),
    "statuses": Entry(documents, _status, (orjson.JSONDecodeError,)),
    "YAML": Entry(documents, _yaml, (formats.YamlError,)),
    "forms": Entry(documents, _form, (ManifestError,)),
    "kubeconfigs": Entry(kubeconfigs, _checked_kubeconfig, (CredentialsError,)),
    "tokens": Entry(texts, _token, (CredentialsError,)),
    "headers": Entry(texts, _headers_of, (ValueError,)),
    "Kueue's configuration": Entry(documents, read_kueue_config, (BadConfigError,)),
    "admission reviews": Entry(documents, lambda text: parse_review(_bytes(text)), (GarbledError,)),
    "quantities": Entry(texts, parse_quantity, (ValueError,)),
    "durations": Entry(texts, parse_duration, (ValueError,)),
    "requests": Entry(texts, parse_requests, (RequestsError,)),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_text_of_others_is_read_or_refused_in_time(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    entry = ENTRIES[name]
    tried = 0

    def holds(text: str) -> None:
        nonlocal tried
        tried += 1
        begin = time.process_time()
        try:
            entry.call(text)
        except entry.refusals as error:
            str(error).encode(errors="strict")
        assert time.process_time() - begin < _BUDGET

    end, number = time.monotonic() + MINUTES * 60 / len(ENTRIES), 0
    while number == 0 or time.monotonic() < end:
        test = given(entry.texts)(holds)
        if MINUTES:
            test = seed(time.time_ns())(test)
        limits = settings(
            max_examples=_EXAMPLES if not MINUTES else 500,
            derandomize=not MINUTES,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        limits(test)()
        number += 1
    if MINUTES:
        with capsys.disabled():
            print(f"{name}: {tried:,} texts")
