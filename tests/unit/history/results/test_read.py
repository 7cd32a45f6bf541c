"""Files of results: what is accepted, and how all that is wrong is reported at once."""

from __future__ import annotations

import json
import math
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fournos.history.results import read
from fournos.history.results.models import MAX_METADATA, Kpi, Test, series_id, series_labels
from fournos.history.results.read import (
    MAX_BYTES,
    MAX_HINTS,
    MAX_REPORTED,
    MAX_YAML_BYTES,
    ResultFile,
    read_file,
    read_value,
)


def scalar(kpi_id: str = "throughput", value: Any = 12.5, **more: Any) -> dict[str, Any]:
    return {"kpi_id": kpi_id, "value": value, "unit": "tokens/s", "higher_is_better": True, **more}


def curve(values: Any = ((1, 10.0), (8, 60.0)), **more: Any) -> dict[str, Any]:
    return {
        "kpi_id": "scaling",
        "is_curve": True,
        "values": [list(p) for p in values],
        "x_unit": "users",
        "y_unit": "tokens/s",
        **more,
    }


def document(*tests: Any) -> bytes:
    return json.dumps({"schema_version": "2", "tests": list(tests)}).encode()


def flat(**more: Any) -> dict[str, Any]:
    """A record as Caliper's schema of a KPI record wants it, every required field included."""
    return {
        **scalar(),
        "schema_version": "1",
        "run_id": "r1",
        "timestamp": "2026-01-02T03:04:05+01:00",
        "labels": {"model_name": "llama"},
        "metadata": {"plugin": "guidellm"},
        "is_curve": False,
        "name": "Throughput",
        "help": "Output tokens",
        **more,
    }


def said(found: ResultFile) -> list[str]:
    return list(map(str, found.problems))


def test_a_hierarchical_file() -> None:
    labels = {"model_name": "llama", "streaming": True, "users": 8}
    metadata = {"timestamp": "2026-01-02T03:04:05", "run_id": "r1"}
    test = {"run_id": "r1", "labels": labels, "metadata": metadata, "kpis": [scalar(), curve()]}
    found = read_file(document(test))
    assert (found.problems, found.warnings) == ((), ())
    (record,) = found.tests
    assert record.labels == {"model_name": "llama", "streaming": "true", "users": "8"}
    assert record.timestamp == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert record.kpis[0] == Kpi(kpi_id="throughput", value=12.5, unit="tokens/s", higher_is_better=True)
    assert record.kpis[1].values == ((1.0, 10.0), (8.0, 60.0))
    assert record.kpis[1].measured_in == "tokens/s / users"


def test_flat_records_are_joined_to_tests() -> None:
    rows = [
        flat(),
        flat(kpi_id="latency", higher_is_better=False, timestamp="2026-01-02T03:05:05+01:00"),
        flat(run_id="r2"),
        flat(labels={"model_name": "granite"}),
    ]
    lines = "\n".join(map(json.dumps, rows)).encode()
    found = read_file(lines, "kpis.jsonl")
    assert (found.problems, found.warnings) == ((), ())
    assert [(r.run_id, r.labels["model_name"], len(r.kpis)) for r in found.tests] == [
        ("r1", "llama", 2),
        ("r2", "llama", 1),
        ("r1", "granite", 1),
    ]
    assert found.tests[0].timestamp == datetime(2026, 1, 2, 2, 5, 5, tzinfo=UTC)
    assert found.tests[0].metadata == {"plugin": "guidellm"}
    assert read_file(lines) == found, "also without a suffix that names the format"
    assert read_file(json.dumps(rows).encode(), "kpis.json").tests == found.tests
    assert read_file(json.dumps(rows[0]).encode()).kpis == 1


def test_labels_of_a_kpi_make_a_test_of_their_own() -> None:
    """As Caliper writes them; they stand beside those of the test, and nothing is lost."""

    def kpi(name: str, value: float, rate: str = "", **more: Any) -> dict[str, Any]:
        return {"kpi_id": name, "value": value, "labels": {"rate": rate, **more} if rate else {}}

    kpis = [
        kpi("throughput", 100.5, "0", higher_is_better=True),
        kpi("throughput", 190.5, "1"),
        kpi("ttft", 10.5, "1"),
        kpi("total", 3.0),
    ]
    found = read_value({"tests": [{"run_id": "r", "labels": {"model": "llama"}, "kpis": kpis}]})
    assert (found.problems, found.warnings) == ((), ())
    shown = [(test.labels, [(one.kpi_id, one.value) for one in test.kpis]) for test in found.tests]
    assert shown == [
        ({"model": "llama", "rate": "0"}, [("throughput", 100.5)]),
        ({"model": "llama", "rate": "1"}, [("throughput", 190.5), ("ttft", 10.5)]),
        ({"model": "llama"}, [("total", 3.0)]),
    ]
    assert found.tests[0].kpis[0].higher_is_better is True
    assert {test.run_id for test in found.tests} == {"r"}


def test_names_of_earlier_versions() -> None:
    points = {"data_points": [{"x": 8, "y": 60}, {"x": 1, "y": 10}], "count": 2}
    kpis = [
        {"id": "throughput", "value": 1, "unit": "tokens/s", "is_2d": False, "format": ".2f"},
        {"id": "scaling", "value": points, "unit": "tokens/s", "is_2d": True, "x_unit": "users"},
        {"id": "pairs", "value": [[1, 2]], "is_2d": True},
    ]
    found = read_file(document({"run_id": "r", "labels": {}, "kpis": kpis}))
    assert (found.problems, found.warnings) == ((), ())
    one, two, three = found.tests[0].kpis
    assert (one.kpi_id, one.value, one.higher_is_better) == ("throughput", 1.0, None)
    assert (two.values, two.y_unit) == (((1.0, 10.0), (8.0, 60.0)), "tokens/s")
    assert three.values == ((1.0, 2.0),)


def test_the_direction_may_be_among_the_labels() -> None:
    row = flat(labels={"model_name": "llama", "higher_is_better": False})
    del row["higher_is_better"]
    (record,) = read_file(json.dumps(row).encode()).tests
    assert record.kpis[0].higher_is_better is False
    assert record.labels == {"model_name": "llama"}


def test_a_test_metadata_file() -> None:
    text = """
version: "1"
labels: {model_name: granite, deployment_profile: distributed}
kpi_labels: {platform: RHOAI, gpu_type: A100}
mlflow_destination: {run_id: "48e4", experiment_id: "264"}
completion: {success: false, message: Connection timeout}
"""
    found = read_file(text.encode(), "__caliper_test_metadata__.yaml")
    assert (found.problems, found.warnings) == ((), ())
    (record,) = found.tests
    assert (record.success, record.message) == (False, "Connection timeout")
    assert record.kpi_labels == {"platform": "RHOAI", "gpu_type": "A100"}
    assert record.metadata == {"mlflow_destination": {"run_id": "48e4", "experiment_id": "264"}}
    assert read_file(b"version: '1'\nskip: true\nlabels: {a: b}\n").tests == ()


def test_yaml_of_several_documents() -> None:
    text = b"kpis: [{kpi_id: a, value: 1}]\nlabels: {n: one}\n---\nkpis: [{kpi_id: a, value: x}]\n"
    found = read_file(text, "results.yaml")
    assert said(found) == ["document 2.kpis[0].value: must be a valid number, not 'x'"]
    assert [record.labels for record in found.tests] == [{"n": "one"}]


def test_all_errors_at_once_by_record_and_field() -> None:
    found = read_file(
        document(
            {"labels": {"n": "good"}, "kpis": [scalar(), scalar("b", "fast"), scalar("b", None), 7]},
            {"labels": ["no"], "kpis": [scalar("", 1), scalar("c", 1, unit=3)], "success": "yes"},
            {"labels": {"n": "x"}, "kpis": {"a": 1}},
            {"labels": {"n": "y"}, "kpis": [{"kpi_id": "a"}, {"value": 1}, scalar(values=[[1, 2]])]},
            {"labels": {"n": "z"}, "kpis": [curve([(1, 2, 3), ("a", 1)]), scalar(higher_is_better="no")]},
            "nonsense",
            {"nothing": "known"},
        )
    )
    assert said(found) == [
        "tests[2].kpis: must be a list, not {'a': 1}",
        "tests[5]: must be a record (an object), not 'nonsense'",
        "tests[6]: has neither tests, kpis nor kpi_id: it is not a file of results",
        "tests[0].kpis[1].value: must be a valid number, not 'fast'",
        "tests[0].kpis[3]: must be a KPI (an object), not 7",
        "tests[1].labels: must be a valid dictionary",
        "tests[1].success: must be a valid boolean, not 'yes'",
        "tests[1].kpis[0].kpi_id: must not be empty, and must not have control characters, not ''",
        "tests[1].kpis[1].unit: must be a valid string, not 3",
        "tests[3].kpis[0]: has neither a value nor the points of a curve",
        "tests[3].kpis[1].kpi_id: is missing",
        "tests[3].kpis[2]: has a value and a curve; write either value or values",
        "tests[4].kpis[0].values[0]: Tuple should have at most 2 items after validation, not 3",
        "tests[4].kpis[1].higher_is_better: must be a valid boolean, not 'no'",
    ]
    assert [record.labels for record in found.tests] == [{"n": "good"}]
    assert list(map(str, found.warnings)) == ["tests[0].kpis[2].value: 'b' was not measured; it is left out"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" + "0" * 400])
def test_values_that_are_not_finite(number: str) -> None:
    for text in (f'{{"kpis": [{{"kpi_id": "a", "value": {number}}}]}}', f'{{"kpi_id":"a","value":{number}}}'):
        found = read_file(text.encode())
        assert len(found.problems) == 1
        assert "value" in str(found.problems[0]) or "is not JSON" in str(found.problems[0])
        assert found.tests == ()
    found = read_file(f'{{"kpis": [{{"kpi_id": "a", "values": [[1, {number}]]}}]}}'.encode())
    (problem,) = found.problems
    assert problem.path == "kpis[0].values[0][1]" or "is not JSON" in str(problem)
    assert found.tests == ()


@pytest.mark.parametrize("value", ["12", True, [], {}, [1], "NaN"])
def test_values_that_are_no_numbers(value: Any) -> None:
    assert read_file(document({"labels": {"a": "b"}, "kpis": [scalar(value=value)]})).problems


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"", "x.json", "the file is empty"),
        (b" \n ", "x.jsonl", "the file is empty"),
        (b"---\n", "x.yaml", "the file is empty"),
        (b"\xff\xfe", "x.json", "the file is not UTF-8 text (byte 0)"),
        (b"\x89PNG\r\n\x1a\n\0\0", "x.png", "the file is not UTF-8 text (byte 0)"),
        (b'{"a": "\0"}', "x.json", "the file has NUL characters; it is not text"),
        (b"{", "x.json", "the file is not JSON: unexpected end of data"),
        (b"{", "x", "the file is not JSON: unexpected end of data"),
        (b"a: [", "x.yaml", "the file is not YAML: "),
        (b"kpis: &a [*a]", "x.yaml", "the file has aliases (*name), which are not accepted"),
        (b"[" * 40 + b"]" * 40, "x.json", "the file is nested more than 32 levels deep"),
        (b"[" * 99999, "x.json", "the file is not JSON: "),
        (b"[" * 9999 + b"]" * 9999, "x.yaml", "the file is nested more than 32 levels deep"),
        (b'{"a": ' + b"9" * 5000 + b"}", "x.json", "the file is not JSON: number is infinity"),
        (b"<html>", "x.html", "must be a record (an object), not '<html>'"),
        (b"1" + b":1" * 300, "x.yaml", "the file is not YAML: a value does not fit its type"),
        (b"!!bool x", "x.yaml", "the file is not YAML: a value does not fit its type"),
        (b"!!int ''", "x.yaml", "the file is not YAML: a value does not fit its type"),
        (
            b"kpis: [{kpi_id: a, value: 1}]\ntimestamp: 0001-01-01T00:00:00+23:59",
            "x.yaml",
            "timestamp: is not between the years 1 and 9999 in UTC",
        ),
        (b"[" + b"[]," * 2**21 + b"{}]", "", "the file has more values than one file may have"),
        (b"7", "", "must be a record (an object), not 7"),
        (b"[]", "", "the file has no test"),
        (b'{"tests": {}}', "", "tests: must be a list, not {}"),
        (b" " * (MAX_BYTES + 1), "", f"the file has {MAX_BYTES + 1} bytes; at most {MAX_BYTES} are accepted"),
        (b"a: " + b"b" * MAX_YAML_BYTES, "x.yml", "a YAML file may have"),
    ],
)
def test_files_of_nonsense(content: bytes, name: str, message: str) -> None:
    found = read_file(content, name)
    assert found.tests == ()
    assert str(found.problems[0]).startswith(message)
    assert len(found.problems) == 1


def test_a_bad_line_takes_no_other_with_it() -> None:
    lines = b"\n".join([json.dumps(flat()).encode(), b"{oops", b"", json.dumps(flat(kpi_id="b")).encode()])
    found = read_file(lines, "x.jsonl")
    assert [problem.path for problem in found.problems] == ["line 2"]
    assert found.kpis == 2


def test_lines_that_are_not_read_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_MOST_LINES", 3)
    records = [json.dumps(flat(kpi_id=f"k{number}")).encode() for number in range(6)]
    assert not read_file(b"\n\n".join(records[:3]), "x.jsonl").problems
    found = read_file(b"\n\n".join(records), "x.jsonl")
    (problem,) = map(str, found.problems)
    assert problem == "line 7: what follows is not read: send at most 3 lines in one file"
    assert found.kpis == 3


def test_unknown_fields_are_named_with_what_may_be_meant() -> None:
    test = {"labels": {}, "kpis": [scalar(higher_is_beter=True)], "mesage": "x", "colour": 1}
    assert list(map(str, read_file(document(test)).warnings)) == [
        "tests[0].mesage: is not known and is ignored; is message meant?",
        "tests[0].colour: is not known and is ignored",
        "tests[0].kpis[0].higher_is_beter: is not known and is ignored; is higher_is_better meant?",
    ]


def test_the_same_test_twice() -> None:
    once = {"run_id": "r", "labels": {"a": "b"}, "kpis": [scalar()]}
    assert len(read_file(document(once, once)).tests) == 1
    other = {**once, "kpis": [scalar(value=13)]}
    (problem,) = read_file(document(once, other)).problems
    assert "give each repeat a run_id of its own" in problem.message
    twice = read_file(document({**once, "kpis": [scalar(), scalar()]}))
    assert said(twice) == ["tests[0]: has the KPI 'throughput' more than once"]


def test_sizes_are_bounded() -> None:
    many = document(*({"labels": {"n": str(n)}, "kpis": [scalar()]} for n in range(1001)))
    assert said(read_file(many)) == ["the file has more than 1000 tests; send them in several files"]
    kpis = [scalar(f"k{n}") for n in range(20_001)]
    assert said(read_file(document({"labels": {}, "kpis": kpis}))) == [
        "the file has more than 20000 KPIs; send them in several files"
    ]
    labels = {f"l{n}": "x" for n in range(65)}
    assert read_file(document({"labels": labels, "kpis": [scalar()]})).problems[0].path == "tests[0].labels"
    points = [(n, 1.0) for n in range(10_001)]
    assert (
        read_file(document({"labels": {}, "kpis": [curve(points)]})).problems[0].path
        == "tests[0].kpis[0].values"
    )
    big = {"labels": {}, "kpis": [scalar()], "metadata": {"a": "x" * MAX_METADATA}}
    assert "at most 16384 are kept" in read_file(document(big)).problems[0].message
    wrong = read_file(document({"labels": {}, "kpis": [7] * (MAX_REPORTED + 5)}))
    assert len(wrong.problems) == MAX_REPORTED + 1
    assert wrong.problems[-1].message == "and more"


def test_texts_are_fit_for_databases_and_terminals() -> None:
    test = {"labels": {"a": "x\x00\x1b[2Jy"}, "message": "z\nline", "kpis": [scalar()]}
    content = json.dumps({"tests": [test]}).encode()
    (record,) = read_file(content).tests
    assert record.labels == {"a": r"x\x00\x1b[2Jy"}
    assert record.message == "z\nline"
    record.model_dump_json().encode()
    assert read_file(document({"labels": {}, "kpis": [scalar("a\nb")]})).problems


def test_a_failed_test_needs_no_kpi() -> None:
    found = read_file(document({"labels": {}, "success": False, "message": "no GPU", "kpis": []}))
    assert (found.problems, found.warnings) == ((), ())
    found = read_file(document({"labels": {"a": "b"}, "kpis": []}))
    assert list(map(str, found.warnings)) == ["tests[0].kpis: the test has no measured KPI"]


def test_keys_of_content_and_place() -> None:
    (first,) = read_file(document({"run_id": "r", "labels": {"a": "1", "b": "2"}, "kpis": [scalar()]})).tests
    (again,) = read_file(document({"run_id": "r", "labels": {"b": "2", "a": "1"}, "kpis": [scalar()]})).tests
    (other,) = read_file(
        document({"run_id": "r", "labels": {"a": "1", "b": "2"}, "kpis": [scalar(value=2)]})
    ).tests
    assert (first.slot, first.content_key) == (again.slot, again.content_key)
    assert first.slot == other.slot
    assert first.content_key != other.content_key


def test_what_makes_a_series() -> None:
    def series(**more: Any) -> str:
        fields = {"labels": {"model_name": "llama", "version": "1"}, "kpi_labels": {"gpu_type": "H200"}}
        record = Test.model_validate({**fields, **more.pop("record", {})})
        return series_id(more.pop("fingerprint", "f"), record, Kpi.model_validate({**scalar(), **more}))

    assert series() == series(value=99, help="other")
    assert series() == series(record={"labels": {"model_name": "llama", "version": "2"}}), "versions differ"
    others = {
        series(),
        series(kpi_id="latency"),
        series(unit="tokens/ms"),
        series(fingerprint="g"),
        series(record={"labels": {"model_name": "granite"}}),
        series(record={"kpi_labels": {"gpu_type": "A100"}}),
        series(value=None, values=[[1, 2]]),
    }
    assert len(others) == 7
    record = Test(labels={"b": "1", "Commit": "x"}, kpi_labels={"a": "2"})
    assert series_labels(record) == {"a": "2", "b": "1"}


values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    *Test.model_fields,
                    *Kpi.model_fields,
                    "tests",
                    "id",
                    "is_curve",
                    "completion",
                    "data_points",
                    "x",
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=25,
)


@given(values)
def test_no_value_is_too_odd(value: Any) -> None:
    found = read_value(value)
    assert found.tests or found.problems or found.warnings or "skip" in repr(value)
    for record in found.tests:
        assert record.content_key
        numbers = [n for kpi in record.kpis for n in (kpi.value or 0, *(n for p in kpi.values for n in p))]
        assert all(map(math.isfinite, numbers))
    for problem in (*found.problems, *found.warnings):
        str(problem).encode()


@given(st.binary(max_size=60), st.sampled_from(["a.json", "a.jsonl", "a.yaml", "a"]))
def test_no_file_is_too_odd(content: bytes, name: str) -> None:
    assert (
        read_file(content, name).problems
        or read_file(content, name).tests
        or read_file(content, name).warnings
    )


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"tests: [" + b"a," * 65_000 + b"a]", "r.yaml"),
        (b"[" + b"[]," * 43_000 + b"[]]", "r.yaml"),
        (b"1" + b":1" * 65_000, "r.yaml"),
        (b"[" * 2**17, "r.yaml"),
        (b"[" + b"a," * 2**20 + b"a]", "r.yaml"),
        (json.dumps({f"higher_is_beter{n}": 0 for n in range(40_000)} | scalar()).encode(), "r.json"),
        (document({"kpis": [curve([("a", "b")] * 500_000)]}), "r.json"),
        (json.dumps({"kpis": [], "labels": {f"a{n}": [] for n in range(200_000)}}).encode(), "r.json"),
        (b"x\n" * 2**22, "r.jsonl"),
        (b"{}\n" * 2**19, "r.jsonl"),
        (b"[" + b"1," * 2**20 + b"1]", "r.json"),
    ],
    ids=range(11),
)
def test_no_file_takes_long(content: bytes, name: str) -> None:
    begin = time.process_time()
    found = read_file(content, name)
    assert time.process_time() - begin < 3.0
    assert len(found.problems) <= MAX_REPORTED + 1 and len(found.warnings) <= MAX_REPORTED + 1


def test_the_first_unknown_fields_have_a_hint() -> None:
    found = read_file(json.dumps({f"higher_is_beter{n}": 0 for n in range(30)} | scalar()).encode())
    assert sum("meant?" in one.message for one in found.warnings) == MAX_HINTS
    assert len(found.warnings) == 30
