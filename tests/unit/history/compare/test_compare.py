"""Runs side by side: what differs, noise, direction, curves, and each format."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fournos.history.compare import comparison
from fournos.history.compare.comparison import Comparison, KpiVerdict, RowKey
from fournos.history.compare.differences import ComparedRun, Section, causes, differences
from fournos.history.compare.formats import FORMATS
from fournos.history.fingerprint import Fingerprint
from fournos.history.results.models import Kpi, Test
from tests.history import by_series

PRINT = Fingerprint(pipeline="forge-full", project="llmd", gpu_type="h200", gpu_count=2, cluster_class="A")


def kpi(value: float = 100.0, kpi_id: str = "throughput", **more: Any) -> Kpi:
    return Kpi(**{"kpi_id": kpi_id, "value": value, "unit": "tokens/s", "higher_is_better": True, **more})


def run(name: str, *kpis: Kpi, **more: Any) -> ComparedRun:
    labels = more.pop("labels", {"model_name": "llama"})
    records = (Test(labels=labels, kpis=kpis),) if kpis else ()
    return ComparedRun(**{"name": name, "fingerprint": PRINT, "tests": records, **more})


def key(kpi_id: str = "throughput") -> RowKey:
    return RowKey(kpi_id, (("model_name", "llama"),))


def history(
    cv: float = 0.01, count: int = 20, kpi_id: str = "throughput", **more: Any
) -> dict[RowKey, list[Kpi]]:
    source = random.Random(7)
    values = [100 * (1 + source.gauss(0, cv)) for _ in range(count)]
    return {key(kpi_id): [kpi(value, kpi_id, **more) for value in values]}


def compare(subjects: Sequence[ComparedRun], past: dict[RowKey, list[Kpi]], **more: Any) -> Comparison:
    return comparison.compare(subjects, by_series(past), **more)


def verdict(before: float, after: float, past: Any = None, **more: Any) -> KpiVerdict:
    found = compare([run("a", kpi(before, **more)), run("b", kpi(after, **more))], past or history())
    return found.rows[0].cells[1].verdict


def test_verdicts_know_the_direction() -> None:
    assert verdict(100, 90) is KpiVerdict.WORSE
    assert verdict(100, 110) is KpiVerdict.BETTER
    assert verdict(100, 101) is KpiVerdict.NOISE
    assert verdict(100, 110, higher_is_better=False) is KpiVerdict.WORSE
    assert verdict(100, 90, higher_is_better=False) is KpiVerdict.BETTER
    assert verdict(100, 90, higher_is_better=None) is KpiVerdict.CHANGED


def test_noise_decides_what_a_change_is() -> None:
    assert verdict(100, 92, history(cv=0.01)) is KpiVerdict.WORSE
    assert verdict(100, 92, history(cv=0.05)) is KpiVerdict.NOISE
    assert verdict(100, 98, history(cv=0.0)) is KpiVerdict.NOISE, "below the minimum effect"
    assert verdict(100, 50, history(count=9)) is KpiVerdict.NO_HISTORY


def test_repeats_in_a_run_narrow_the_band() -> None:
    def repeated(name: str, *values: float) -> ComparedRun:
        records = tuple(Test(run_id=str(n), kpis=(kpi(v),)) for n, v in enumerate(values))
        return ComparedRun(name, PRINT, records)

    past = {RowKey("throughput"): history(cv=0.03)[key()]}
    single = compare([repeated("a", 100), repeated("b", 94)], past).rows[0]
    many = compare([repeated("a", *[100.0] * 9), repeated("b", *[94.0] * 9)], past).rows[0]
    assert single.cells[1].verdict is KpiVerdict.NOISE
    assert many.cells[1].verdict is KpiVerdict.WORSE
    assert (single.band or 0) > (many.band or 0) > 0


def test_many_kpis_are_compared_more_strictly() -> None:
    names = [f"kpi-{number}" for number in range(50)]
    past = {key(name): history(cv=0.02)[key()] for name in names}
    first = compare([run("a", kpi(100)), run("b", kpi(93.5))], {key(): history(cv=0.02)[key()]}).rows[0]
    values = [(kpi(100, name), kpi(93.5, name)) for name in names]
    all_rows = compare([run("a", *(v[0] for v in values)), run("b", *(v[1] for v in values))], past).rows
    assert first.cells[1].verdict is KpiVerdict.WORSE
    assert {row.cells[1].verdict for row in all_rows} == {KpiVerdict.NOISE}


def test_three_runs_are_compared_with_the_first() -> None:
    found = compare([run("a", kpi(100)), run("b", kpi(100)), run("c", kpi(80))], history())
    assert [cell.verdict for cell in found.rows[0].cells] == [
        KpiVerdict.REFERENCE,
        KpiVerdict.NOISE,
        KpiVerdict.WORSE,
    ]
    assert [cell.change for cell in found.rows[0].cells] == [None, 0, pytest.approx(-0.2)]
    assert found.regressed
    assert not compare([run("a", kpi(100)), run("b", kpi(120))], history()).regressed


def test_what_is_missing_or_measured_otherwise() -> None:
    one = run("a", kpi(100), kpi(5, "latency"))
    other = run("b", kpi(0.1, unit="tokens/ms"), kpi(7, "memory"))
    rows = {row.key.kpi_id: row.cells for row in compare([one, other], history()).rows}
    assert [cell.verdict for cell in rows["latency"]] == [KpiVerdict.REFERENCE, KpiVerdict.MISSING]
    assert [cell.verdict for cell in rows["memory"]] == [KpiVerdict.MISSING, KpiVerdict.NOT_COMPARABLE]
    assert rows["throughput"][1].verdict is KpiVerdict.NOT_COMPARABLE
    assert rows["throughput"][1].note == "measured in tokens/ms"
    curve = kpi(None, values=((1, 2),), unit="", y_unit="tokens/s")
    mixed = compare([run("a", kpi(100)), run("b", curve)], history()).rows[0]
    assert mixed.cells[1].verdict is KpiVerdict.NOT_COMPARABLE
    assert compare([run("a"), run("b")], {}).rows == ()


def test_failed_tests_do_not_count() -> None:
    failed = ComparedRun("b", PRINT, (Test(labels={"model_name": "llama"}, success=False, kpis=(kpi(1),)),))
    assert compare([run("a", kpi(100)), failed], history()).rows[0].cells[1].verdict is KpiVerdict.MISSING


def test_a_change_from_zero() -> None:
    past = {key("errors"): [kpi(0.0, "errors", higher_is_better=False)] * 12}
    runs = [run(n, kpi(v, "errors", higher_is_better=False)) for n, v in (("a", 0.0), ("b", 3.0))]
    (row,) = compare(runs, past).rows
    assert (row.cells[1].change, row.cells[1].verdict) == (None, KpiVerdict.WORSE)
    assert "from 0" in FORMATS["text"](compare(runs, past))


OTHER = replace(PRINT, gpu_type="a100", cluster_class="B")


def test_other_fingerprints_get_no_verdict_unless_asked_for() -> None:
    runs = [run("a", kpi(100)), run("b", kpi(50), fingerprint=OTHER)]
    found = compare(runs, history())
    assert not found.comparable
    assert not found.regressed
    assert found.rows[0].cells[1].verdict is KpiVerdict.NOT_COMPARABLE
    across = compare(runs, history(), across=True)
    assert across.rows[0].cells[1].verdict is KpiVerdict.WORSE
    for name, form in FORMATS.items():
        for text in (form(found), form(across)):
            visible = "fingerprints differ" in text or '"comparable": false' in text or ",false\n" in text
            assert visible, f"{name} is silent about it"


def test_what_differs_comes_first() -> None:
    one = run(
        "a",
        spec={"env": {"A": "1"}, "ttl": "1h", "exclusive": True, "secretRefs": ["x", "y"]},
        provenance={"images": [{"name": "vllm", "digest": "sha256:1"}]},
        hardware={"driver": "550"},
    )
    other = run(
        "b",
        fingerprint=OTHER,
        spec={"env": {"A": "2"}, "exclusive": True, "secretRefs": ["x"]},
        provenance={"images": [{"name": "vllm", "digest": "sha256:2"}]},
        hardware={"driver": "560"},
    )
    found = differences([one, other])
    assert [(one.section, str(one)) for one in found] == [
        (Section.FINGERPRINT, "cluster_class: A | B"),
        (Section.FINGERPRINT, "gpu_type: h200 | a100"),
        (Section.SPEC, "env.A: 1 | 2"),
        (Section.SPEC, "secretRefs: x y | x"),
        (Section.PROVENANCE, "images[0].digest: sha256:1 | sha256:2"),
        (Section.HARDWARE, "driver: 550 | 560"),
    ]
    assert causes(one.provenance, other.provenance) == ("images[0].digest sha256:1 -> sha256:2",)
    before, after = ({**each.provenance, "nodes": {"run": name}} for each, name in ((one, "a"), (other, "b")))
    assert causes(before, after)[1:] == ("nodes.run a -> b",), "they come last"
    assert differences([one, one]) == ()


def curve(*points: tuple[float, float], **more: Any) -> Kpi:
    return Kpi(
        **{
            "kpi_id": "scaling",
            "values": points,
            "x_unit": "users",
            "y_unit": "t/s",
            "higher_is_better": True,
            **more,
        }
    )


def test_curves_are_compared_by_their_mean_at_the_same_x() -> None:
    source = random.Random(3)
    shape = [(1.0, 10.0), (4.0, 40.0), (16.0, 100.0)]
    past = [curve(*((x, y * (1 + source.gauss(0, 0.01))) for x, y in shape)) for _ in range(15)]
    runs = [
        run("a", curve(*shape)),
        run("b", curve(*((x, y * (0.8 if x > 1 else 1)) for x, y in shape))),
        run("c", curve(*shape)),
        run("d", curve((40.0, 1.0))),
    ]
    (row,) = compare(runs[:3], {key("scaling"): past}).rows
    assert [cell.verdict for cell in row.cells] == [KpiVerdict.REFERENCE, KpiVerdict.WORSE, KpiVerdict.NOISE]
    assert [cell.value for cell in row.cells] == [50.0, 122 / 3, 50.0]
    assert row.unit == "t/s / users"
    (apart,) = compare([runs[0], runs[3]], {key("scaling"): past}).rows
    assert apart.cells[1].verdict is KpiVerdict.NOT_COMPARABLE
    assert apart.cells[1].note == "measured at other x"
    (narrow,) = compare(runs[:2], {key("scaling"): [curve((2.0, 1.0), (3.0, 1.0))] * 20}).rows
    assert narrow.cells[1].verdict is KpiVerdict.NO_HISTORY, "the history was measured at other x"


def full() -> Comparison:
    shape = [(1.0, 10.0), (4.0, 40.0)]
    one = run("a", kpi(100), curve(*shape), spec={"env": {"A": "1"}})
    other = run("b", kpi(80), curve(*shape), spec={"env": {"A": "2"}})
    return compare([one, other], history())


def test_text() -> None:
    assert FORMATS["text"](full()).splitlines() == [
        "section  difference  a  b",
        "spec     env.A       1  2",
        "Not recorded: the Pipeline; the Tasks that it names (steps, scripts, defaults); image digests; "
        "nodes; the target's Kubernetes; the target's GPU drivers; ConfigMaps and Secrets",
        "",
        "KPI                            unit         noise  a    b   change  verdict",
        "scaling (model_name=llama)     t/s / users  -      25   25  +0.0%   not enough history",
        "throughput (model_name=llama)  tokens/s     ±3.0%  100  80  -20.0%  worse",
        "",
        "1 worse, 1 not enough history",
    ]


def test_that_nothing_differs_is_not_said_of_what_is_not_recorded() -> None:
    task = {"name": "run", "taskSpec": {"steps": [{"image": "x"}]}}
    whole: dict[str, Any] = {
        "images": {"run/main": {"imageID": "sha256:1"}},
        "pipelineSpec": {"tasks": [task]},
        "nodes": {"run": "node-1"},
        "target": {"kubernetes": "v1.36.2", "driver": "550.54.15"},
    }
    spec = {"pipeline": "p"}
    runs = [run(name, kpi(1), spec=spec, provenance=whole) for name in "ab"]
    found = compare(runs, {})
    never = ("ConfigMaps and Secrets",)
    assert found.differences == () and found.not_recorded == never
    named = {**whole, "pipelineSpec": {"tasks": [{"name": "run", "taskRef": {"name": "bench"}}]}}
    less = compare(
        [runs[0], run("c", kpi(1), spec=spec, provenance={"pipelineSpec": named["pipelineSpec"]})], {}
    )
    assert less.not_recorded == (
        "the Tasks that it names (steps, scripts, defaults) of c",
        "image digests of c",
        "nodes of c",
        "the target's Kubernetes of c",
        "the target's GPU drivers of c",
        *never,
    )
    engine = [run(name, kpi(1), spec={**spec, "executionEngine": {"forge": {}}}) for name in "ab"]
    assert "the engine's revision" in compare(engine, {}).not_recorded
    for name, form in FORMATS.items():
        assert name == "csv" or "image digests of c" in form(less), name
        assert "Nothing differs" not in form(found)
    assert found.without_documents().not_recorded == ()


def test_json_and_csv_have_full_precision() -> None:
    data = json.loads(FORMATS["json"](full()))
    assert data["kpis"][1]["values"][1] == {"value": 80.0, "change": -0.2, "verdict": "worse", "note": ""}
    assert data["differences"] == [{"section": "spec", "path": "env.A", "values": ["1", "2"]}]
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](full()))))
    assert len(rows) == 4
    assert (rows[3]["run"], rows[3]["labels"], rows[3]["change"]) == ("b", "model_name=llama", "-0.2")


HOSTILE = '<script>alert("1")</script>|`x`\x1b[2J'


def hostile() -> Comparison:
    points = ((1.0, 2.0), (2.0, 3.0))
    measured = [kpi(1, f"=cmd|{HOSTILE[:29]}"), curve(*points, kpi_id="curve<b>", y_unit=HOSTILE)]
    labels = {"a": HOSTILE}
    runs = [
        run(name, *measured, labels=labels, provenance={HOSTILE: f"of {name}"})
        for name in (f"=1{HOSTILE}", f'"{HOSTILE}')
    ]
    return compare(runs, {})


def test_the_names_of_the_runs_are_no_difference() -> None:
    def about(name: str, other: str) -> ComparedRun:
        params = [{"value": name}, {"value": f"{name}-kubeconfig"}, {"value": other}]
        return run(name, kpi(), provenance={"params": params}, spec={"env": {"JOB": name}})

    assert differences([about("nightly-a", "x"), about("nightly-b", "x")]) == ()
    (found,) = differences([about("a", "abc"), about("b", "bcd")])
    assert (found.path, found.values) == ("params[2].value", ("abc", "bcd")), "part of another word is none"
    assert differences([about("a", "b-x"), about("b", "b-x")]) == (), "the values are the same"


def test_formats_are_inert() -> None:
    found = hostile()
    for form in ("text", "md", "json"):
        assert "\x1b" not in FORMATS[form](found)
    markdown = FORMATS["md"](found)
    assert "<script>" not in markdown
    assert (
        len({line.replace(r"\|", "").count("|") for line in markdown.splitlines() if line.startswith("|")})
        == 2
    )
    rows = list(csv.reader(io.StringIO(FORMATS["csv"](found))))
    assert any("cmd|" in cell for row in rows for cell in row)
    for row in rows:
        assert not any(cell.startswith(("=", "@", "\x1b")) for cell in row)
