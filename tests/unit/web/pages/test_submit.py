"""The page Submit: the form, what it refuses, its preview, and the jobs that come of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fournos.api.kinds import PIPELINE
from fournos.engine.kube.errors import AlreadyExistsError, ForbiddenError, InvalidError, KubeError
from fournos.engine.queueing.workload import LOCAL_QUEUE, WORKLOAD_PRIORITY_CLASS
from fournos.web.pages import submit
from fournos.web.site import Done, ShownPage
from tests.unit.cli.api import Api
from tests.unit.cli.objects import NS
from tests.unit.insight.test_overview import cluster
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
    status, html = await preview(Api(), {**FORM, "hardware.gpuCount": "", "ttl": "soon", "do": "submit"})
    assert status == 422
    assert 'id="wrong-hardware.gpuType"' in html and 'id="wrong-ttl"' in html and 'value="soon"' in html
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
        (InvalidError('FournosJob "one" is invalid: spec.ttl: Invalid value: "x"', status=422), "ttl"),
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
