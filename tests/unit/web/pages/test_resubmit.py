"""The page Submit, filled in from a job: what it takes over, what differs, and the jobs that come of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from fournos.api.fournosjob import FournosJobSpec
from fournos.client.repeat import repeat
from fournos.engine.api.crd import schema
from fournos.history.records import Detail, body
from fournos.insight.differences import SpecDifference
from fournos.web.errors import PageError
from fournos.web.forms import Origin, changes, filled, groups, inputs, wanted
from fournos.web.pages import submit
from fournos.web.runs.subject import JobSubject
from fournos.web.site import Done
from tests.history import a_run, ended
from tests.unit.cli.api import Api
from tests.unit.cli.objects import NS, job
from tests.unit.web.calls import call, preview, shown, text

ENV = {"MODEL": "llama", "TEXT": "two\nlines", "A.B": "1"}
SPEC: dict[str, Any] = {
    "env": ENV,
    "exclusive": True,
    "priority": "low",
    "hardware": {"gpuType": "a100", "gpuCount": 2},
    "retry": {"limit": 2, "backoff": "30s"},
    "shutdown": "Stop",
}


def old(**spec: Any) -> Any:
    return job("old", "Failed", spec={**SPEC, **spec}, labels={"team": "x"})


async def form_of(api: Api, **query: str) -> dict[str, str]:
    """The form as a browser sends it."""
    data = await submit.gather(call(api, query={"from": "bench/old", **query}))
    return {**data["form"], "uid": data["origin"].about.uid}


# --- over the page ---------------------------------------------------------------------------------


async def test_a_job_is_submitted_again_with_changes() -> None:
    api = Api(old())
    form = {**await form_of(api), "hardware.gpuCount": "4", "do": "submit"}
    done = await submit.act(call(api), form)
    ((_, made),) = api.writes
    assert made["metadata"]["labels"] == {"team": "x"}
    assert made["metadata"]["generateName"] == "old-"
    assert made["metadata"]["annotations"] == {"fournos.dev/retry-of": "old/uid-old"}
    assert made["spec"]["env"] == ENV and made["spec"]["hardware"]["gpuCount"] == 4
    assert made["spec"]["retry"] == SPEC["retry"] and "shutdown" not in made["spec"]
    assert isinstance(done, Done)
    assert done.notice.endswith("is submitted with the spec of old; changed: hardware.gpuCount.")


async def test_what_is_changed_from_run_to_run_comes_first() -> None:
    html = await shown(submit.PAGE, call(Api(old()), query={"from": "bench/old"}))
    first, _, rest = html.partition("<summary>All other fields</summary>")
    named = re.findall(r'name="([\w.]+)"', first[first.index("<form") :])
    assert named == [
        *("from", "uid", "name", "cluster", "hardware.gpuType", "hardware.gpuCount"),
        *("priority", "executionEngine", "env"),
    ]
    assert {"owner", "pipeline", "displayName", "exclusive", "retry.limit", "labels"} <= set(
        re.findall(r'name="([\w.]+)"', rest)
    )
    assert "<h1>Resubmit old</h1>" in html and "<details><summary>All other fields" in html


async def test_the_preview_shows_what_differs() -> None:
    api = Api(old())
    form = {**await form_of(api), "hardware.gpuCount": "4", "priority": "", "do": "preview"}
    status, html = await preview(api, form)
    table = text(html[html.index('id="changes"') : html.index("</table>")])
    assert status == 200
    assert "hardware.gpuCount 2 4 priority low –" in table and "exclusive" not in table
    assert "Looked up again when it runs: the Pipeline and its images, the content of the secrets" in text(
        html
    )


async def test_a_preview_without_a_change_says_so() -> None:
    api = Api(old())
    _, html = await preview(api, {**await form_of(api), "do": "preview"})
    assert "The spec is that of old, without a change." in text(html)


@pytest.mark.parametrize("change", [{"ttl": "1h"}, {"ttl": "soon"}, {"labels": "y"}])
async def test_a_folded_field_that_is_changed_or_wrong_is_unfolded(change: dict[str, str]) -> None:
    api = Api(old())
    _, html = await preview(api, {**await form_of(api), **change, "do": "preview"})
    assert "<details open><summary>All other fields" in html


async def test_the_address_may_change_fields_at_once() -> None:
    form = await form_of(Api(old()), **{"hardware.gpuCount": "8", "name": "bigger"})
    assert (form["hardware.gpuCount"], form["name"], form["priority"]) == ("8", "bigger", "low")


async def test_markup_of_a_job_is_text() -> None:
    bad = "</textarea><script>alert(1)</script>"
    api = Api(old(env={"A": bad}, displayName=bad))
    html = await shown(submit.PAGE, call(api, query={"from": "bench/old"}))
    _, changed = await preview(api, {**await form_of(api), "env": "", "do": "preview"})
    assert "<script>" not in html + changed


@pytest.mark.parametrize("given", ["old", "bench/", "/old", "a/b/c"])
async def test_what_names_no_job_is_not_here(given: str) -> None:
    with pytest.raises(PageError, match="NAMESPACE/NAME"):
        await submit.gather(call(Api(), query={"from": given}))


async def test_another_job_of_the_same_name_is_not_taken_for_it() -> None:
    api = Api(old())
    with pytest.raises(PageError, match="is gone"):
        await submit.act(call(api), {**await form_of(api), "uid": "of-an-earlier-job", "do": "submit"})
    assert not api.writes


async def test_a_job_that_is_gone_is_filled_in_from_the_history() -> None:
    api = Api()
    run = ended(a_run(1, name="old"))
    run = replace(run, identity=replace(run.identity, namespace=NS, uid="uid-gone"))
    runs = f"/apis/history.fournos.dev/v1/namespaces/{NS}/runs/uid-gone"
    gone = old()
    gone["metadata"]["uid"] = "uid-gone"
    api.stored[f"{runs}?kind=FournosJob"] = body(Detail(run), Detail)
    api.stored[f"{runs}/documents/object"] = json.dumps(gone).encode()
    form = await form_of(api, uid="uid-gone")
    _, html = await preview(api, {**form, "do": "preview"})
    assert "generateName: old-" in html
    done = await submit.act(call(api), {**form, "do": "submit"})
    assert isinstance(done, Done) and "with the spec of old." in done.notice
    assert api.writes[0][1]["spec"]["env"] == ENV


# --- what differs ----------------------------------------------------------------------------------


def origin(spec: dict[str, Any], *, live: bool = True) -> Origin:
    raw = job("old", "Failed", spec=spec, labels={"team": "x"})
    raw["spec"] = spec
    return Origin(JobSubject(raw, live), repeat(raw, {})[0])


BASE: dict[str, Any] = {
    "owner": "ann",
    "pipeline": "fournos-full",
    "exclusive": True,
    "hardware": {"gpuType": "a100", "gpuCount": 2},
    "executionEngine": {"forge": {"args": [1], "project": "p"}},
    "env": ENV,
    "secretRefs": ["a"],
    "timeouts": {"pipeline": "1h"},
}
CHANGES: list[tuple[dict[str, str], list[tuple[str, Any, Any]]]] = [
    ({}, []),
    ({"exclusive": "", "pipeline": " "}, []),  # the defaults
    ({"exclusive": "false"}, [("exclusive", True, False)]),
    ({"hardware.gpuCount": "4"}, [("hardware.gpuCount", 2, 4)]),
    ({"timeouts.pipeline": ""}, [("timeouts.pipeline", "1h", None)]),
    (
        {"env": "MODEL=llama\nA.B=1\nEMPTY="},
        [("env.EMPTY", None, ""), ("env.TEXT", "two\nlines", None)],
    ),
    (
        {"executionEngine": "forge: {args: [1, 2]}"},
        [("executionEngine.forge.args", [1], [1, 2]), ("executionEngine.forge.project", "p", None)],
    ),
    ({"secretRefs": "a\nb"}, [("secretRefs", ["a"], ["a", "b"])]),
]


@pytest.mark.parametrize(("change", "differs"), CHANGES)
def test_changes_of_the_form(change: dict[str, str], differs: list[tuple[str, Any, Any]]) -> None:
    base = origin(BASE)
    form = {**filled(base.manifest), **change}
    found = changes(base, wanted(form, base.manifest, NS))
    assert found == [SpecDifference(*one) for one in differs]


def test_each_field_of_the_spec_can_be_written() -> None:
    for again in (True, False):
        first, others = groups(again=again)
        assert {one.path for one in (*first, *others)} == {one.path for one in inputs()}
    roots = {one.path.partition(".")[0] for one in inputs()}
    assert set(schema(FournosJobSpec)["properties"]) - roots == {"apiVersion", "kind", "metadata", "shutdown"}
