"""The page Submit: the form, what it refuses, its preview, and the job that comes of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from fournos.api.kinds import PIPELINE
from fournos.client.submission import repeat
from fournos.engine.kube.errors import AlreadyExistsError, ForbiddenError, InvalidError, KubeError
from fournos.engine.queueing.kinds import LOCAL_QUEUE, WORKLOAD_PRIORITY_CLASS
from fournos.history.records import Detail, body
from fournos.insight.values import SpecDifference
from fournos.web.errors import PageError
from fournos.web.forms import (
    INPUTS,
    LABELS,
    LARGEST,
    OTHERS,
    Origin,
    changes,
    filled,
    text_of,
    value_of,
    wanted,
)
from fournos.web.pages import submit
from fournos.web.runs.subject import JobSubject
from fournos.web.site import Done, ShownPage
from tests.history import a_run, ended
from tests.unit.cli.api import Api
from tests.unit.cli.objects import NS, job
from tests.unit.insight.test_fleet import cluster
from tests.unit.web.calls import READ_ONLY, call, preview, render, shown, text

FORM = {
    "pipeline": "fournos-full",
    "owner": "ann",
    "cluster": "cluster-1",
    "hardware.gpuType": "a100",
    "hardware.gpuCount": "2",
    "executionEngine": "forge: {project: llmd}",
}


async def test_the_form_suggests_what_the_fleet_has() -> None:
    html = await shown(submit.PAGE, call(Api(cluster("cluster-1", ("h200", 8)))))
    assert "<option>cluster-1</option>" in html and "<option>h200</option>" in html
    assert '<datalist id="known-hardware.gpuCount"><option value="1"><option value="2">' in html
    assert 'name="owner" type="text" value="ann"' in html


async def test_the_form_can_be_filled_by_its_address() -> None:
    html = await shown(submit.PAGE, call(Api(), query={"cluster": "cluster-7", "exclusive": "false"}))
    assert 'value="cluster-7"' in html and "<option selected>false</option>" in html


async def test_where_all_namespaces_are_shown_the_form_has_one() -> None:
    api = Api()
    for namespace in ("beta", "alpha"):
        api.add(LOCAL_QUEUE, {"metadata": {"name": "q", "namespace": namespace}})
    asked = call(api)
    everywhere = replace(asked, site=replace(asked.site, jobs_namespace=""))
    html = await shown(submit.PAGE, everywhere)
    assert 'name="namespace" value="alpha"' in html and '<option value="beta">' in html
    found = await submit.act(everywhere, {**FORM, "namespace": "beta"})
    assert isinstance(found, ShownPage) and "namespace: beta" in render(found.page, found.data)


async def test_who_may_not_create_jobs_sees_no_button() -> None:
    html = await shown(submit.PAGE, call(Api(), rights=READ_ONLY))
    assert 'value="submit"' not in html and "You may not create jobs in bench." in html


async def test_all_violations_are_shown_at_once_with_what_was_typed() -> None:
    status, html = await preview(
        Api(), {**FORM, "hardware.gpuCount": "", "spec": "ttl: soon", "do": "submit"}
    )
    assert status == 422
    assert 'id="wrong-hardware.gpuType"' in html and 'id="wrong-spec"' in html and "ttl: soon" in html
    assert "<details open><summary>All other fields" in html


async def test_markup_in_fields_is_text() -> None:
    bad = "</textarea><script>alert(1)</script>"
    _, html = await preview(
        Api(), {**FORM, "displayName": bad, "env": f"A={bad}", "name": bad, "params": bad}
    )
    assert "<script>" not in html


async def test_the_preview_has_the_yaml_and_the_command() -> None:
    status, html = await preview(Api(), {**FORM, "name": "one", "do": "preview"})
    assert status == 200
    assert "It would be submitted." in text(html) and "fournos submit -f job.yaml" in text(html)
    assert "project: llmd" in html
    above, form = html.split('<form id="new-job"')
    assert 'form="new-job" name="do" value="submit"' in above, "no need to scroll"
    assert 'value="submit"' in form


async def test_a_job_is_submitted_and_shown() -> None:
    api = Api()
    done = await submit.act(call(api), {**FORM, "name": "one", "labels": "team=x", "do": "submit"})
    assert done == Done("/jobs/bench/one", "one is submitted.")
    ((_, made),) = api.writes
    assert made["metadata"] == {"name": "one", "namespace": NS, "labels": {"team": "x"}}
    assert made["spec"]["hardware"] == {"gpuType": "a100", "gpuCount": 2}


@pytest.mark.parametrize(
    ("error", "at"),
    [
        (AlreadyExistsError('fournosjobs "one" already exists', status=409), "metadata.name"),
        (InvalidError('FournosJob "one" is invalid: spec.ttl: Invalid value: "x"', status=422), "spec"),
        (InvalidError("no <b>room</b> here", status=422), ""),
    ],
)
async def test_what_only_the_api_server_refuses_is_shown_with_what_was_typed(
    error: KubeError, at: str
) -> None:
    api = Api()

    async def refused(*_: Any, **__: Any) -> Any:
        raise error

    api.create = refused  # type: ignore[method-assign]
    status, html = await preview(api, {**FORM, "name": "one", "displayName": "typed", "do": "submit"})
    assert status == error.status
    assert "The API server refuses it" in html and 'value="typed"' in html
    assert f'href="#field-{at}"' in html if at else "no &lt;b&gt;room" in html


async def test_a_name_that_nothing_has_is_refused_unless_it_is_meant() -> None:
    api = Api(flavors=[{"metadata": {"name": "cluster-1"}}])
    form = {**FORM, "name": "one", "cluster": "cluster1", "do": "submit"}
    found = await submit.act(call(api), form)
    assert isinstance(found, ShownPage) and found.status == 422 and not api.writes
    html = render(submit.PAGE, found.data)
    assert "It would fail at once" in html and "is cluster-1 meant?" in html
    assert 'value="force">Submit anyway' in html
    assert isinstance(await submit.act(call(api), {**form, "do": "force"}), Done)
    assert len(api.writes) == 1


async def test_pipelines_and_priorities_are_offered_to_those_who_may_read_them() -> None:
    api = Api()
    api.add(PIPELINE, {"metadata": {"name": "serve", "namespace": NS}, "spec": {}})
    api.add(WORKLOAD_PRIORITY_CLASS, {"metadata": {"name": "high"}})
    html = await shown(submit.PAGE, call(api))
    assert '<option value="serve">' in html and "<option>high</option>" in html
    for kind in (PIPELINE, WORKLOAD_PRIORITY_CLASS):
        api.fails["list", kind] = ForbiddenError("no", status=403)
    html = await shown(submit.PAGE, call(api))
    assert "serve" not in html and "<option>high</option>" not in html


# --- The page Submit, filled in from a job: what it takes over, what differs, and the jobs --------


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
    folded = {"owner", "displayName", "pipeline", "exclusive", "params", "labels", "spec"}
    assert set(re.findall(r'name="([\w.]+)"', rest)) == folded | {"do"}
    assert "limit: 2" in rest, "what has no field of its own is kept"
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


@pytest.mark.parametrize("change", [{"spec": "ttl: 1h"}, {"spec": "ttl: soon"}, {"labels": "y"}])
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
    ({"spec": "secretRefs: [a]"}, [("timeouts.pipeline", "1h", None)]),
    (
        {"env": "MODEL=llama\nA.B=1\nEMPTY="},
        [("env.EMPTY", None, ""), ("env.TEXT", "two\nlines", None)],
    ),
    (
        {"executionEngine": "forge: {args: [1, 2]}"},
        [("executionEngine.forge.args", [1], [1, 2]), ("executionEngine.forge.project", "p", None)],
    ),
    ({"spec": "secretRefs: [a, b]\ntimeouts: {pipeline: 1h}"}, [("secretRefs", ["a"], ["a", "b"])]),
]


@pytest.mark.parametrize(("change", "differs"), CHANGES)
def test_changes_of_the_form(change: dict[str, str], differs: list[tuple[str, Any, Any]]) -> None:
    base = origin(BASE)
    form = {**filled(base.manifest), **change}
    found = changes(base, wanted(form, base.manifest, NS))
    assert found == [SpecDifference(*one) for one in differs]


# --- values as texts and back, and what is refused ------------------------------------------------


FIELDS = {one.path: one for one in (*INPUTS, LABELS, OTHERS)}


def test_a_job_with_every_kind_of_field_survives_the_form() -> None:
    hardware = {"gpuTypes": ["h200", "a100"], "gpuCount": 2}
    spec = {**BASE, "exclusive": False, "hardware": hardware, "params": {"model": ["a", "b"]}}
    base = origin(spec)
    again = wanted(filled(base.manifest), base.manifest, NS)
    assert again.manifest["spec"] == spec


def test_a_field_may_not_contradict_the_others() -> None:
    (wrong,) = wanted({**FORM, "spec": "hardware: many"}, {}, NS).wrong[:1]
    assert (wrong.field, "spec.hardware is not a map" in wrong.message) == ("spec", True)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("owner", "ann"),
        ("hardware.gpuCount", 4),
        ("exclusive", False),
        ("env", {"A": "1=2", "B": "two\nlines", "C": '"quoted"', "D": "", "E": "a\u2028b\x0b"}),
        ("executionEngine", {"forge": {"args": ["a: b", 1, None], "text": "x\ny\n"}}),
    ],
)
def test_a_value_survives_the_form(path: str, value: Any) -> None:
    assert value_of(FIELDS[path], text_of(FIELDS[path], value).replace("\n", "\r\n")) == value


@pytest.mark.parametrize("path", FIELDS)
def test_an_empty_input_is_no_value(path: str) -> None:
    assert value_of(FIELDS[path], " \r\n") is None and text_of(FIELDS[path], None) == ""


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        ("hardware.gpuCount", "many", "whole number"),
        ("exclusive", "maybe", "one of true, false"),
        ("env", "novalue", "is not NAME=VALUE"),
        ("env", 'A="open', "write it as JSON"),
        ("executionEngine", "a: [", "not YAML: line"),
        ("executionEngine", "- a", "write a map"),
        ("executionEngine", "a: &x [1]\nb: [*x, *x]", "has aliases"),
        ("executionEngine", "[" * 20000, "nested more than 50 levels"),
        ("executionEngine", "a: " + "x" * LARGEST, "longer than"),
    ],
)
def test_what_cannot_be_meant_is_refused(path: str, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        value_of(FIELDS[path], text)


def test_all_wrong_fields_are_named_at_once() -> None:
    found = wanted({"owner": "ann", "exclusive": "x", "hardware.gpuCount": "y", "spec": "["}, {}, NS)
    assert {one.field for one in found.wrong} == {"spec.exclusive", "spec.hardware.gpuCount", "spec"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("forge: &a [*a]", "it has aliases (*name), which are not accepted; write each value out"),
        ("[" * LARGEST, "it is nested more than 50 levels deep"),
        ("forge: !!bool x", "it is not YAML: a value does not fit its type (KeyError)"),
        ("forge: 2001-13-45", "it is not YAML: a value does not fit its type (ValueError)"),
    ],
)
def test_yaml_that_cannot_be_read_is_refused_at_its_field(text: str, message: str) -> None:
    (wrong,) = wanted({"owner": "ann", "executionEngine": text}, {}, "ns").wrong
    assert (wrong.field, wrong.message) == ("spec.executionEngine", message)
