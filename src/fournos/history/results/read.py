"""Reads a file of results: parses it within limits, validates it once, names all that is wrong by its path.

Accepted are Caliper's formats, as JSON, JSON lines or YAML: flat KPI records (one, a list, or one a line),
its hierarchical files (`tests` with their `kpis`), its test metadata files, and the names that its earlier
versions use.  Pure.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from io import StringIO
from itertools import islice
from typing import Any, Final

import orjson
from pydantic import ValidationError

from fournos.engine.api.values import escaped_line
from fournos.engine.kube.formats import load_all
from fournos.history.results.models import Kpi, Test, canonical

MAX_BYTES: Final = 8 * 2**20
MAX_YAML_BYTES: Final = 128 * 1024
"""YAML is parsed a hundred times slower than JSON."""
MAX_VALUES: Final = 1_000_000
"""Values that a file may have, lists and maps included: a few bytes of JSON are a hundred in memory."""
MAX_DEPTH: Final = 32
MAX_TESTS: Final = 1_000
MAX_KPIS: Final = 20_000
"""KPIs of one file."""
MAX_REPORTED: Final = 1_000
"""Problems, and warnings, of one file: nothing is looked for after more of them."""
MAX_HINTS: Final = 20
"""Unknown fields of one file that are compared with the known ones: each comparison takes a twentieth of a
millisecond."""
MAX_SHOWN: Final = 60
"""Characters shown of a wrong value."""
_MOST_LINES: Final = 25_000
"""Lines that are parsed: more than a file may have tests and KPIs."""
_LINES: Final = (".jsonl", ".ndjson")
_YAML: Final = (".yaml", ".yml")

_IGNORED: Final = frozenset({"schema_version", "version", "is_curve", "is_2d", "format", "source", "skip"})
"""Fields of Caliper that carry nothing to store."""
_KPI_FIELDS: Final = frozenset(Kpi.model_fields)
_TEST_FIELDS: Final = frozenset(Test.model_fields)
_COMMON: Final = frozenset({"run_id", "timestamp", "labels", "metadata"})
"""Fields of a flat record that belong to its test."""
_MANIFEST: Final = frozenset({"timing", "mlflow_destination"})
"""Fields of a test metadata file that are kept as metadata."""


@dataclass(frozen=True, slots=True)
class ResultProblem:
    """One error or warning."""

    path: str
    """The place in the file, such as tests[3].kpis[2].value or line 7; "" for the whole file."""
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ResultFile:
    """The valid tests of a file, and what is wrong with the others."""

    tests: tuple[Test, ...] = ()
    problems: tuple[ResultProblem, ...] = ()
    warnings: tuple[ResultProblem, ...] = ()

    @property
    def kpis(self) -> int:
        return sum(len(test.kpis) for test in self.tests)


def read_file(content: bytes, name: str = "") -> ResultFile:
    """Reads the content of one file.  Never raises.

    The suffix of `name` decides on the format; without a known one JSON, JSON lines and YAML are tried in
    this order.
    """
    reader = _Reader()
    try:
        for place, value in reader.parse(content, name):
            reader.take(place, value)
    except ValueError as error:
        reader.problem("", str(error))
        return reader.result([])
    return reader.result(reader.tests())


def read_value(value: Any) -> ResultFile:
    """Like `read_file`, of a value that is parsed already."""
    reader = _Reader()
    reader.take("", value)
    return reader.result(reader.tests())


@dataclass(slots=True)
class _Draft:
    """A test that is not validated yet: its fields, and its KPIs with the place of each."""

    place: str
    fields: dict[str, Any]
    kpis: list[tuple[str, Any]] = field(default_factory=list)


class _Reader:
    """Collects tests, problems and warnings while a file is read."""

    def __init__(self) -> None:
        self._problems: list[ResultProblem] = []
        self._warnings: list[ResultProblem] = []
        self._drafts: dict[object, _Draft] = {}
        self._kpis = 0
        self._hints = MAX_HINTS

    @property
    def full(self) -> bool:
        """True if more was found than is reported or accepted: what follows need not be read."""
        too_much = len(self._drafts) > MAX_TESTS or self._kpis > MAX_KPIS
        return too_much or len(self._problems) > MAX_REPORTED

    def problem(self, path: str, message: str) -> None:
        self._problems.append(ResultProblem(path, message))

    def result(self, tests: Iterable[Test]) -> ResultFile:
        return ResultFile(tuple(tests), _cut(self._problems), _cut(self._warnings))

    # --- bytes to values

    def parse(self, content: bytes, name: str) -> Iterable[tuple[str, Any]]:
        """Returns the values of a file, each with its place.  Raises ValueError if it cannot be parsed."""
        if len(content) > MAX_BYTES:
            raise ValueError(f"the file has {len(content)} bytes; at most {MAX_BYTES} are accepted")
        if sum(map(content.count, (b",", b"[", b"{"))) > MAX_VALUES:
            raise ValueError(
                "the file has more values than one file may have; send its tests in several files"
            )
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"the file is not UTF-8 text (byte {error.start})") from None
        if not text.strip():
            raise ValueError("the file is empty")
        if "\0" in text:
            raise ValueError("the file has NUL characters; it is not text")
        suffix = name.lower()
        if suffix.endswith(_YAML):
            return _yaml(text)
        if suffix.endswith(_LINES):
            return self._lines(text)
        try:
            return [("", _json(text))]
        except orjson.JSONDecodeError as error:
            if _looks_like_lines(text):
                return self._lines(text)
            if suffix.endswith(".json") or text.lstrip()[0] in "{[":
                raise ValueError(f"the file is not JSON: {error}{_not_finite(text)}") from None
        return _yaml(text)

    def _lines(self, text: str) -> Iterator[tuple[str, Any]]:
        for count, (number, line) in enumerate(
            (number, line) for number, line in enumerate(StringIO(text), start=1) if line.strip()
        ):
            place = f"line {number}"
            if count == _MOST_LINES:
                self.problem(place, f"what follows is not read: send at most {_MOST_LINES} lines in one file")
            if count >= _MOST_LINES or self.full:
                return
            try:
                yield place, _json(line)
            except ValueError as error:
                self.problem(place, f"is not JSON: {error}{_not_finite(line)}")

    # --- values to tests

    def take(self, place: str, value: Any) -> None:
        """Brings each accepted form to drafts of tests."""
        if self.full:
            return
        if isinstance(value, list):
            for index, item in enumerate(value):
                self.take(f"{place}[{index}]", item)
        elif not isinstance(value, Mapping):
            self.problem(place, f"must be a record (an object), not {_shown(value)}")
        elif "tests" in value:
            self._unknown(place, value, frozenset({"tests"}))
            if isinstance(value["tests"], list):
                self.take(_join(place, "tests"), value["tests"])
            else:
                self.problem(_join(place, "tests"), f"must be a list, not {_shown(value['tests'])}")
        elif "kpi_id" in value or "id" in value:
            self._take_flat(place, value)
        elif "kpis" in value or "labels" in value:
            if value.get("skip") is not True:
                self._take_test(place, value)
        else:
            self.problem(place, "has neither tests, kpis nor kpi_id: it is not a file of results")

    def _take_flat(self, place: str, value: Mapping[str, Any]) -> None:
        """Joins flat records of the same run and labels to one test."""
        fields = {name: item for name, item in value.items() if name in _COMMON}
        kpi = {name: item for name, item in value.items() if name not in _COMMON}
        labels = fields.get("labels")
        if isinstance(labels, Mapping) and "higher_is_better" in labels:  # where schema version 1 has it
            fields["labels"] = {name: text for name, text in labels.items() if name != "higher_is_better"}
            kpi.setdefault("higher_is_better", labels["higher_is_better"])
        pairs = fields["labels"].items() if isinstance(fields.get("labels"), Mapping) else ()
        key = f"{fields.get('run_id')!r} {sorted((str(name), str(text)) for name, text in pairs)!r}"
        draft = self._drafts.setdefault(key, _Draft(place, fields))
        draft.kpis.append((place, kpi))
        self._kpis += 1
        if draft.fields is not fields:
            draft.fields["metadata"] = draft.fields.get("metadata") or fields.get("metadata")
            times = [time for time in (draft.fields.get("timestamp"), fields.get("timestamp")) if time]
            draft.fields["timestamp"] = max(times, key=str, default=None)

    def _take_test(self, place: str, value: Mapping[str, Any]) -> None:
        fields = {name: item for name, item in value.items() if name != "kpis" and name not in _MANIFEST}
        metadata = fields.get("metadata")
        if isinstance(metadata, Mapping):
            fields["metadata"] = {
                name: item for name, item in metadata.items() if name not in ("run_id", "timestamp")
            }
            for name in ("run_id", "timestamp"):
                fields[name] = fields.get(name) or metadata.get(name)
        if manifest := {name: value[name] for name in sorted(_MANIFEST) if value.get(name)}:
            kept = fields.get("metadata")
            fields["metadata"] = {**kept, **manifest} if isinstance(kept, Mapping) else kept or manifest
        completion = fields.pop("completion", None)
        if isinstance(completion, Mapping):
            fields = {**completion, **fields}
        elif completion is not None:
            self.problem(_join(place, "completion"), f"must be an object, not {_shown(completion)}")
        self._unknown(place, fields, _TEST_FIELDS)
        kpis = value.get("kpis") or []
        if not isinstance(kpis, list):
            self.problem(_join(place, "kpis"), f"must be a list, not {_shown(kpis)}")
            return
        self._kpis += len(kpis)
        drafts: dict[str, _Draft] = {}
        for index, kpi in enumerate(kpis):
            own, rest = _own_labels(kpi)
            labels = fields.get("labels")
            labels = {**labels, **own} if own and isinstance(labels, Mapping) else own or labels
            draft = drafts.setdefault(repr(sorted(own.items())), _Draft(place, {**fields, "labels": labels}))
            draft.kpis.append((_join(place, f"kpis[{index}]"), rest))
        for draft in drafts.values() or (_Draft(place, fields),):
            self._drafts[id(draft)] = draft

    # --- validation

    def tests(self) -> list[Test]:
        """Validates the tests; a wrong one, or a wrong KPI, takes no other with it."""
        for number, most, what in ((len(self._drafts), MAX_TESTS, "tests"), (self._kpis, MAX_KPIS, "KPIs")):
            if number > most:
                self.problem("", f"the file has more than {most} {what}; send them in several files")
                return []
        tests: dict[str, Test] = {}
        for draft in self._drafts.values():
            test = None if self.full else self._test(draft)
            if test is None:
                continue
            earlier = tests.setdefault(test.slot, test)
            if earlier.content_key != test.content_key:
                labels = canonical(test.labels).decode()
                which = f"the run_id {_shown(test.run_id)} and the labels {_shown(labels)}"
                self.problem(
                    draft.place,
                    f"another test has {which}, but other values; give each repeat a run_id of its own",
                )
        if not tests and not self._problems:
            self.problem("", "the file has no test")
        return list(tests.values())

    def _test(self, draft: _Draft) -> Test | None:
        fields = {
            name: item for name, item in draft.fields.items() if name in _TEST_FIELDS and item is not None
        }
        measured = [
            (place, self._kpi(place, value))
            for place, value in draft.kpis
            if self._was_measured(place, value)
        ]
        try:
            test = Test.model_validate({**fields, "kpis": [kpi for _, kpi in measured]})
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False)
            wrong = {problem["loc"][1] for problem in found if _of_kpi(problem["loc"])}
            for problem in islice(found, MAX_REPORTED + 1):
                place, loc = draft.place, problem["loc"]
                if _of_kpi(loc):
                    place, loc = measured[int(loc[1])][0], loc[2:]
                self.problem(_path(place, loc), _message(problem))
            rest = [kpi for index, (_, kpi) in enumerate(measured) if index not in wrong]
            if not rest or not all(_of_kpi(problem["loc"]) for problem in found):
                return None
            return self._test(_Draft(draft.place, fields, [("", kpi) for kpi in rest]))
        if not test.kpis and test.success:
            self._warn(_join(draft.place, "kpis"), "the test has no measured KPI")
        return test

    def _was_measured(self, place: str, value: Any) -> bool:
        unmeasured = isinstance(value, Mapping) and "value" in value and value["value"] is None
        if not unmeasured or value.get("values"):
            return True
        name = _shown(value.get("kpi_id", value.get("id")))
        self._warn(_join(place, "value"), f"{name} was not measured; it is left out")
        return False

    def _kpi(self, place: str, value: Any) -> Any:
        """Returns a KPI in the names of today."""
        if not isinstance(value, Mapping):
            return value
        kpi = {name: item for name, item in value.items() if name not in _IGNORED}
        if "id" in kpi:
            kpi.setdefault("kpi_id", kpi.pop("id"))
        inner = kpi.get("value")
        if isinstance(inner, Mapping) and isinstance(inner.get("data_points"), list):
            kpi["values"] = [
                [point.get("x"), point.get("y")] if isinstance(point, Mapping) else point
                for point in inner["data_points"]
            ]
            del kpi["value"]
        elif isinstance(inner, list):
            kpi["values"] = kpi.pop("value")
        if kpi.get("values") and not kpi.get("y_unit") and kpi.get("unit"):
            kpi["y_unit"] = kpi["unit"]
        self._unknown(place, kpi, _KPI_FIELDS)
        return {name: item for name, item in kpi.items() if name in _KPI_FIELDS and item is not None}

    def _unknown(self, place: str, value: Mapping[str, Any], fields: frozenset[str]) -> None:
        """Warns of fields that are not stored."""
        for name in value:
            if name in fields or name in _IGNORED:
                continue
            if len(self._warnings) > MAX_REPORTED:
                return
            near: list[str] = []
            if self._hints:
                self._hints -= 1
                near = difflib.get_close_matches(str(name)[:64], sorted(fields), n=1)
            hint = f"; is {near[0]} meant?" if near else ""
            self._warn(_join(place, _shown(name).strip("'")), f"is not known and is ignored{hint}")

    def _warn(self, path: str, message: str) -> None:
        self._warnings.append(ResultProblem(path, message))


def _own_labels(kpi: Any) -> tuple[dict[str, Any], Any]:
    """Returns the labels of a KPI beside those of its test, which make a test of their own, and the rest.

    `higher_is_better` among them is no label, but where schema version 1 has the direction.
    """
    labels = kpi.get("labels") if isinstance(kpi, Mapping) else None
    if not isinstance(labels, Mapping):
        return {}, kpi
    rest = {name: item for name, item in kpi.items() if name != "labels"}
    if "higher_is_better" in labels:
        rest.setdefault("higher_is_better", labels["higher_is_better"])
    return {str(name): item for name, item in labels.items() if name != "higher_is_better"}, rest


def _json(text: str) -> Any:
    """Raises ValueError."""
    value = orjson.loads(text)
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for item in level for inner in _inside(item)]
        if not level:
            return value
    raise ValueError(f"the file is nested more than {MAX_DEPTH} levels deep")


def _inside(value: Any) -> Iterator[Any]:
    """The containers in a container."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (item for item in inner if isinstance(item, dict | list))


def _looks_like_lines(text: str) -> bool:
    """True if the first line is an object by itself, and there are more lines."""
    lines = list(islice((line for line in StringIO(text) if line.strip()), 2))
    return len(lines) > 1 and lines[0].strip().startswith("{") and lines[0].strip().endswith("}")


def _not_finite(text: str) -> str:
    """A hint at what Python writes for numbers that JSON does not have."""
    written = [word for word in ("NaN", "Infinity") if word in text]
    return f"; {written[0]} is no number in JSON: write null, or leave it out" if written else ""


def _yaml(text: str) -> list[tuple[str, Any]]:
    """Raises ValueError."""
    if len(text) > MAX_YAML_BYTES:
        raise ValueError(
            f"a YAML file may have {MAX_YAML_BYTES} bytes, this one has {len(text)}; write JSON instead"
        )
    try:
        documents = load_all(text, deepest=MAX_DEPTH)
    except ValueError as error:
        raise ValueError(f"the file {error}") from None
    named = [
        (f"document {place}" if len(documents) > 1 else "", value)
        for place, value in enumerate(documents, start=1)
        if value is not None
    ]
    if not named:
        raise ValueError("the file is empty")
    return named


def _of_kpi(loc: tuple[int | str, ...]) -> bool:
    """True if the place of an error is within a KPI."""
    return len(loc) > 1 and loc[0] == "kpis"


def _path(start: str, parts: Iterable[int | str]) -> str:
    path = start
    for part in parts:
        if part != "[key]":
            path = f"{path}[{part}]" if isinstance(part, int) else _join(path, part)
    return escaped_line(path)


def _message(problem: Mapping[str, Any]) -> str:
    if problem["type"] == "model_type":
        return f"must be a KPI (an object), not {_shown(problem['input'])}"
    text = str(problem["msg"]).removeprefix("Value error, ")
    text = text.replace("Input should be", "must be").replace("Field required", "is missing")
    if problem["type"] == "missing" or isinstance(problem["input"], Mapping | list | tuple):
        return text
    return f"{text}, not {_shown(problem['input'])}"


def _shown(value: object) -> str:
    """A wrong value as text on one line, cut to a readable length."""
    try:
        text = escaped_line(repr(value)[: MAX_SHOWN + 1])
    except ValueError:  # an integer of more digits than Python converts
        return "a number of thousands of digits"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _cut(problems: list[ResultProblem]) -> tuple[ResultProblem, ...]:
    if len(problems) <= MAX_REPORTED:
        return tuple(problems)
    return (*problems[:MAX_REPORTED], ResultProblem("", "and more"))


def _join(*parts: str) -> str:
    return ".".join(part for part in parts if part)
