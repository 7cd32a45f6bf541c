"""Checks a file of results, and reports all errors at once by record and field.  Pure.

Accepted are Caliper's formats: flat KPI records (one, a list, or one a line), its hierarchical files
(`tests` with their `kpis`), its test metadata files, and the names that its earlier versions use.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from pydantic import ValidationError

from fournos.history.results.models import Kpi, ResultRecord, canonical
from fournos.history.results.parse import parse
from fournos.history.results.problems import MAX_REPORTED, ResultProblem, problems_of, shown

MAX_RECORDS: Final = 1_000
MAX_KPIS: Final = 20_000
"""KPIs of one file."""
MAX_HINTS: Final = 20
"""Unknown fields of one file that are compared with the known ones: each comparison takes a twentieth of a
millisecond."""

_IGNORED: Final = frozenset({"schema_version", "version", "is_curve", "is_2d", "format", "source", "skip"})
"""Fields of Caliper that carry nothing to store."""
_KPI_FIELDS: Final = frozenset(Kpi.model_fields)
_RECORD_FIELDS: Final = frozenset(ResultRecord.model_fields)
_COMMON: Final = frozenset({"run_id", "timestamp", "labels", "metadata"})
"""Fields of a flat record that belong to its test."""
_MANIFEST: Final = frozenset({"timing", "mlflow_destination"})
"""Fields of a test metadata file that are kept as metadata."""


@dataclass(frozen=True, slots=True)
class CheckedResults:
    """The valid records of a file, and what is wrong with the others."""

    records: tuple[ResultRecord, ...] = ()
    problems: tuple[ResultProblem, ...] = ()
    warnings: tuple[ResultProblem, ...] = ()

    @property
    def kpis(self) -> int:
        return sum(len(record.kpis) for record in self.records)


class _Findings:
    """Collects problems and warnings while a file is checked."""

    def __init__(self) -> None:
        self.problems: list[ResultProblem] = []
        self.warnings: list[ResultProblem] = []
        self._hints = MAX_HINTS

    @property
    def full(self) -> bool:
        """True if more problems are found than are reported: what follows need not be checked."""
        return len(self.problems) > MAX_REPORTED

    def problem(self, record: str, field: str, message: str) -> None:
        self.problems.append(ResultProblem(record, field, message))

    def unknown(self, record: str, path: str, value: Mapping[str, Any], fields: frozenset[str]) -> None:
        """Warns of fields that are not stored."""
        for name in value:
            if name in fields or name in _IGNORED:
                continue
            if len(self.warnings) > MAX_REPORTED:
                return
            hint = self._hint(str(name), fields)
            self.warnings.append(
                ResultProblem(
                    record, _join(path, shown(name).strip("'")), f"is not known and is ignored{hint}"
                )
            )

    def _hint(self, name: str, fields: frozenset[str]) -> str:
        if not self._hints:
            return ""
        self._hints -= 1
        near = difflib.get_close_matches(name[:64], sorted(fields), n=1)
        return f"; is {near[0]} meant?" if near else ""


def check(content: bytes, name: str = "") -> CheckedResults:
    """Checks the content of one file.  Never raises."""
    parsed = parse(content, name)
    findings = _Findings()
    findings.problems += parsed.problems
    return _checked(parsed.values, findings)


def check_value(value: Any) -> CheckedResults:
    """Like `check`, of a value that is parsed already."""
    return _checked((("", value),), _Findings())


def _checked(values: tuple[tuple[str, Any], ...], findings: _Findings) -> CheckedResults:
    every = (test for place, value in values for test in _tests(place, value, findings))
    tests = list(islice(every, MAX_RECORDS + MAX_KPIS + 1))
    merged = _grouped(tests)
    if len(merged) > MAX_RECORDS:
        findings.problem("", "", f"the file has more than {MAX_RECORDS} records; send them in several files")
        merged = {}
    if sum(len(test.kpis) for test in merged.values()) > MAX_KPIS:
        findings.problem("", "", f"the file has more than {MAX_KPIS} KPIs; send them in several files")
        merged = {}
    records = [
        record for test in merged.values() if not findings.full and (record := _record(test, findings))
    ]
    if not records and not findings.problems:
        findings.problem("", "", "the file has no record")
    return CheckedResults(_unique(records, findings), _cut(findings.problems), _cut(findings.warnings))


@dataclass(slots=True)
class _Test:
    """A test that is not checked yet: the fields of its record, and its KPIs with the place of each."""

    place: str
    header: dict[str, Any]
    kpis: list[tuple[str, str, Any]]
    flat: bool = False
    broken: bool = False
    """True if its KPIs could not be read at all."""


def _tests(place: str, value: Any, findings: _Findings) -> Iterator[_Test]:
    """Brings each accepted form to tests."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            if findings.full:
                return
            yield from _tests(f"{place}[{index}]", item, findings)
        return
    if not isinstance(value, Mapping):
        findings.problem(place, "", f"must be a record (an object), not {shown(value)}")
        return
    if "tests" in value:
        findings.unknown(place, "", value, frozenset({"tests"}))
        if isinstance(value["tests"], list):
            for index, item in enumerate(value["tests"]):
                if findings.full:
                    return
                yield from _tests(_join(place, f"tests[{index}]"), item, findings)
        else:
            findings.problem(place, "tests", f"must be a list, not {shown(value['tests'])}")
    elif "kpi_id" in value or "id" in value:
        flat = {key: item for key, item in value.items() if key not in _COMMON}
        header = {key: item for key, item in value.items() if key in _COMMON}
        header["labels"], flat = _direction_of_labels(header.get("labels"), flat)
        yield _Test(place, header, [(place, "", flat)], flat=True)
    elif "kpis" in value or "labels" in value:
        if value.get("skip") is not True:
            yield _test(place, value, findings)
    else:
        findings.problem(place, "", "has neither tests, kpis nor kpi_id: it is not a file of results")


def _test(place: str, value: Mapping[str, Any], findings: _Findings) -> _Test:
    header = {key: item for key, item in value.items() if key != "kpis" and key not in _MANIFEST}
    metadata = header.get("metadata")
    if isinstance(metadata, Mapping):
        rest = {key: item for key, item in metadata.items() if key not in ("run_id", "timestamp")}
        header["metadata"] = rest
        for name in ("run_id", "timestamp"):
            if metadata.get(name) and not header.get(name):
                header[name] = metadata[name]
    if extra := {key: value[key] for key in sorted(_MANIFEST) if value.get(key)}:
        header["metadata"] = {**(header.get("metadata") or {}), **extra}
    completion = header.pop("completion", None)
    if isinstance(completion, Mapping):
        header = {**completion, **header}
    elif completion is not None:
        findings.problem(place, "completion", f"must be an object, not {shown(completion)}")
    findings.unknown(place, "", header, _RECORD_FIELDS)
    kpis = value.get("kpis")
    if isinstance(kpis, list):
        return _Test(place, header, [(place, f"kpis[{i}]", kpi) for i, kpi in enumerate(kpis)])
    if kpis is not None:
        findings.problem(place, "kpis", f"must be a list, not {shown(kpis)}")
    return _Test(place, header, [], broken=kpis is not None)


def _direction_of_labels(labels: Any, flat: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Moves higher_is_better out of the labels, where schema version 1 has it."""
    if not isinstance(labels, Mapping) or "higher_is_better" not in labels:
        return labels, flat
    rest = {key: item for key, item in labels.items() if key != "higher_is_better"}
    return rest, {"higher_is_better": labels["higher_is_better"], **flat}


def _grouped(tests: list[_Test]) -> dict[object, _Test]:
    """Joins flat records of the same run and labels to one test."""
    merged: dict[object, _Test] = {}
    for test in tests:
        key: object = id(test)
        if test.flat:
            key = f"{test.header.get('run_id')!r} {_sorted(test.header.get('labels'))}"
        if (earlier := merged.get(key)) is None:
            merged[key] = test
        else:
            earlier.kpis += test.kpis
            earlier.header["metadata"] = earlier.header.get("metadata") or test.header.get("metadata")
            times = [earlier.header.get("timestamp"), test.header.get("timestamp")]
            earlier.header["timestamp"] = max((time for time in times if time), key=str, default=None)
    return merged


def _sorted(labels: Any) -> str:
    pairs = labels.items() if isinstance(labels, Mapping) else ()
    return repr(sorted((str(key), str(item)) for key, item in pairs))


def _record(test: _Test, findings: _Findings) -> ResultRecord | None:
    kpis: list[Kpi] = []
    ids: set[str] = set()
    failed = len(findings.problems)
    for place, path, value in test.kpis:
        if findings.full:
            return None
        kpi = _kpi(place, path, value, findings)
        if kpi is None:
            continue
        if kpi.kpi_id in ids:
            findings.problem(
                place, _join(path, "kpi_id"), f"{shown(kpi.kpi_id)} is in the record more than once"
            )
            continue
        ids.add(kpi.kpi_id)
        kpis.append(kpi)
    header = {key: item for key, item in test.header.items() if key in _RECORD_FIELDS and item is not None}
    try:
        record = ResultRecord.model_validate({**header, "kpis": kpis})
    except ValidationError as error:
        findings.problems += problems_of(error, test.place)
        return None
    if not kpis and (test.broken or len(findings.problems) > failed):
        return None
    if not kpis and record.success:
        findings.warnings.append(ResultProblem(test.place, "kpis", "the record has no measured KPI"))
    return record


def _kpi(place: str, path: str, value: Any, findings: _Findings) -> Kpi | None:
    """Checks one KPI; None if it is wrong, or has no value."""
    if not isinstance(value, Mapping):
        findings.problem(place, path, f"must be a KPI (an object), not {shown(value)}")
        return None
    current = _current_names(value)
    curve = value.get("is_curve", value.get("is_2d"))
    if curve is not None and not isinstance(curve, bool):
        findings.problem(place, _join(path, "is_curve"), f"must be true or false, not {shown(curve)}")
    findings.unknown(place, path, current, _KPI_FIELDS)
    if "value" in current and current["value"] is None and not current.get("values") and not curve:
        name = current.get("kpi_id")
        findings.warnings.append(
            ResultProblem(place, _join(path, "value"), f"{shown(name)} was not measured; it is left out")
        )
        return None
    fields = {key: item for key, item in current.items() if key in _KPI_FIELDS and item is not None}
    try:
        return Kpi.model_validate(fields)
    except ValidationError as error:
        findings.problems += problems_of(error, place, path)
        return None


def _current_names(value: Mapping[str, Any]) -> dict[str, Any]:
    """Translates what earlier versions of Caliper write: id, and curves under value."""
    current = {key: item for key, item in value.items() if key not in _IGNORED}
    if "id" in current:
        current.setdefault("kpi_id", current["id"])
        del current["id"]
    inner = current.get("value")
    if isinstance(inner, Mapping) and isinstance(inner.get("data_points"), list):
        current["values"] = [_pair(point) for point in inner["data_points"]]
        del current["value"]
    elif isinstance(inner, list):
        current["values"] = inner
        del current["value"]
    if current.get("values") and not current.get("y_unit") and current.get("unit"):
        current["y_unit"] = current["unit"]
    return current


def _pair(point: Any) -> Any:
    return [point.get("x"), point.get("y")] if isinstance(point, Mapping) else point


def _unique(records: list[ResultRecord], findings: _Findings) -> tuple[ResultRecord, ...]:
    """Leaves out duplicates.  Two different contents for one test are a problem: either could be meant."""
    by_slot: dict[str, ResultRecord] = {}
    for record in records:
        earlier = by_slot.setdefault(record.slot, record)
        if earlier is not record and earlier.content_key != record.content_key:
            what = canonical(record.labels).decode()
            findings.problem(
                "",
                "",
                f"two records have the run_id {shown(record.run_id)} and the labels {shown(what)}, but other "
                "values; give each repeat a run_id of its own",
            )
    return tuple(by_slot.values())


def _cut(problems: list[ResultProblem]) -> tuple[ResultProblem, ...]:
    if len(problems) <= MAX_REPORTED:
        return tuple(problems)
    return (*problems[:MAX_REPORTED], ResultProblem("", "", "and more"))


def _join(*parts: str) -> str:
    return ".".join(part for part in parts if part)
