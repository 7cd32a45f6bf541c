"""The pages Other kinds, Usage and Health."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from fournos.engine.kube.errors import NoSuchResourceError
from fournos.engine.kube.resource import Resource
from fournos.history.records import body
from fournos.history.usage import Share, Usage
from fournos.web.pages import health, kinds, usage
from tests.unit.cli.api import Api
from tests.unit.cli.objects import NOW, NS, ago, job
from tests.unit.insight.test_fleet import cluster
from tests.unit.insight.test_sheets import BUILD, FLUX, WRAPPER
from tests.unit.web.calls import Verbs, call, shown, text


async def test_each_object_leads_to_its_page() -> None:
    html = await shown(kinds.PAGE, call(Api(WRAPPER, FLUX, BUILD)))
    for one in ("AppWrapper/bench/train", "MiniCluster/bench/flux", "PipelineRun/bench/build"):
        assert f'href="/kinds/{one}"' in html


async def test_an_object_shows_why_it_waits_and_the_command() -> None:
    path = {"kind": "PipelineRun", "namespace": "bench", "name": "build"}
    found = text(await shown(kinds.OBJECT, call(Api(BUILD), path=path)))
    assert "PipelineRun build Waiting" in found and "fournos explain pipelinerun/build" in found


async def test_without_a_history_the_page_says_so() -> None:
    found = text(await shown(usage.PAGE, call(Api())))
    assert "0.0 GPU-hours in 0 runs" in found and "the cluster has no history" in found
    assert "command line" not in found and "No idle locks" in found


async def test_the_history_adds_up_each_namespace_that_may_be_read() -> None:
    class Reader(Verbs):
        async def may(self, verb: str, resource: Resource, namespace: str = "", **_: str) -> bool:
            return resource == usage.RESOURCE and namespace in ("a", "b")

    class Spaces:
        def namespaces(self, _: Resource) -> set[str]:
            return {"a", "b", "c"}

    jobs = [job(f"of-{namespace}", "Running") for namespace in "abc"]
    for one, namespace in zip(jobs, "abc", strict=True):
        one["metadata"]["namespace"] = namespace
    api = Api(*jobs)
    since = (NOW - timedelta(days=30)).isoformat()
    for namespace, hours in (("a", 1.5), ("b", 2.5)):
        share = (Share(f"of-{namespace}", hours, 6000),)
        found = Usage(hours, 6000, share, (Share("cluster-1", hours, 6000),), (), ())
        query = urlencode({"since": since})
        path = f"/apis/history.fournos.dev/v1/namespaces/{namespace}/usage?{query}"
        api.stored[path] = body(found, Usage)
    asked = call(api, rights=Reader(()), query={"period": "30d"})
    asked = replace(asked, site=replace(asked.site, jobs_namespace="", caches=Spaces()))  # type: ignore[arg-type]
    page = await shown(usage.PAGE, asked)
    assert 'download="usage-30d.csv"' in page and "owners%2Cof-a%2C1.500%2C6000" in page
    html = text(page)
    assert "command line" not in html, "no one request has this sum"
    assert "4.0 GPU-hours in 12000 runs" in html.replace(",", "")
    assert "of-a" in html and "of-b" in html and "no history" not in html
    assert not [path for _, path in api.raw_requests if "/runs" in path], "no run is read"


async def test_the_command_shows_the_same() -> None:
    since = NOW - timedelta(days=7)
    api = Api(cluster("c", ("a100", 800)))
    path = f"/apis/history.fournos.dev/v1/namespaces/{NS}/usage"
    api.stored[f"{path}?{urlencode({'since': since.isoformat()})}"] = body(
        Usage(1.0, 1, (Share("ann", 1.0, 1),), (), (), ()), Usage
    )
    html = await shown(usage.PAGE, call(api))
    assert f'data-copy="fournos usage -n {NS} --since 7d"' in html
    assert "less than 0.1 % of the 134,400 that 800 GPUs have" in text(html)


async def test_locks_are_in_no_other_sum() -> None:
    places = (Share("cluster-1", 100.0, 1), Share("[clusterless]", 68.0, 1))
    used = Usage(168.0, 2, (Share("ann", 168.0, 2),), places, (), (), locks=(Share("ben", 672.0, 1),))
    since = (NOW - timedelta(days=7)).isoformat()
    api = Api()
    path = f"/apis/history.fournos.dev/v1/namespaces/{NS}/usage?{urlencode({'since': since})}"
    api.stored[path] = body(used, Usage)
    html = await shown(usage.PAGE, call(api))
    assert "GPU-hours, by owner" in html
    assert "168.0 GPU-hours in 2 runs" in text(html) and "Lock holder GPU-hours Runs ben" in text(html)
    assert "[clusterless]" in html and set(re.findall(r'"/clusters/[^"]+"', html)) == {
        '"/clusters/cluster-1"'
    }


@pytest.mark.parametrize("period", ["1d", "7d", "90d", "forever", ""])
async def test_the_period_is_one_of_the_list(period: str) -> None:
    data = await usage.gather(call(Api(), query={"period": period}))
    assert data["period"] == (period if period in ("1d", "90d") else "7d")


async def test_an_unused_lock_is_named() -> None:
    lock = {"state": "Held", "owner": "ben", "heldSince": ago(hours=9)}
    busy = job("one", "Running", status={"cluster": "cluster-2"})
    api = Api(*(cluster(f"cluster-{one}", ("a100", 8), status={"lock": lock}) for one in (1, 2)), busy)
    html = await shown(usage.PAGE, call(api))
    assert "/clusters/cluster-1" in html and "/clusters/cluster-2" not in html.split("Idle locks")[1]


async def test_faults_stand_first_with_their_fix() -> None:
    api: Any = Api()

    async def raw_get(path: str) -> bytes:
        if path.startswith("/apis/"):
            raise NoSuchResourceError("404 page not found", status=404)
        return b'{"gitVersion": "v1.34.0"}' if path == "/version" else b'{"groups": []}'

    api.raw_get = raw_get
    html = await shown(health.PAGE, call(api))
    worst = text(html.split("All other checks")[0])
    assert "fournosjobs.fournos.dev fault it is not installed Fix: apply its CRDs" in worst


async def test_an_examination_is_shared_for_some_seconds() -> None:
    requests = []
    api: Any = Api()

    async def raw_get(path: str) -> bytes:
        requests.append(path)
        return b"{}"

    api.raw_get = raw_get
    asked = call(api)
    first = await shown(health.PAGE, asked)
    assert await shown(health.PAGE, asked) == first and requests.count("/version") == 1
