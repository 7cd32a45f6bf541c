"""deploy/monitoring: scraped as shipped, each alert with its page, each query of metrics that there are."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster import manifests
from fournos.app.parts import TABLE
from tests.unit.deploy.monitoring import (
    FOLDER,
    ROOT,
    dashboard,
    labels_in,
    metrics_in,
    queries,
    rules,
)
from tests.unit.deploy.test_metrics import FOLDERS, shipped_by

RUNBOOKS = ROOT / "docs" / "runbooks"
OF_THE_SCRAPE = {"namespace", "job", "pod", "le"}


def documents(name: str) -> list[dict[str, Any]]:
    return manifests.parse((FOLDER / name).read_text())


@pytest.mark.parametrize("system", FOLDERS)
def test_each_operator_is_scraped_at_its_service(system: str) -> None:
    shipped = shipped_by(system)
    service = shipped.metrics_service
    place = shipped.deployment["metadata"].get("namespace", "fournos-operator")
    monitors = [
        one
        for one in documents("servicemonitors.yaml")
        if one["metadata"]["namespace"] == place
        and one["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    ]
    (monitor,) = monitors
    assert monitor["spec"]["endpoints"] == [{"port": "metrics"}]
    selected = monitor["spec"]["selector"]["matchLabels"]
    matching = [
        one for one in shipped.of("Service") if selected.items() <= one["metadata"].get("labels", {}).items()
    ]
    assert matching == [service]


def test_every_query_is_of_metrics_that_are_registered() -> None:
    known = {row.name: set(row.labels) for row in TABLE}
    used = set()
    for where, query in queries():
        names = metrics_in(query)
        assert names <= set(known), where
        assert names or query.startswith("up{"), where
        used |= names
        allowed = OF_THE_SCRAPE.union(*(known[name] for name in names))
        assert labels_in(query) <= allowed, where
    assert len(used) > 20


def test_the_services_of_the_first_alert_are_all_that_are_scraped() -> None:
    (rule,) = (rule for rule in rules() if rule["alert"] == "FournosMetricsUnreachable")
    for system in FOLDERS:
        service = shipped_by(system).metrics_service["metadata"]["name"]
        assert service.removeprefix("appwrapper-").removeprefix("operator-") in rule["expr"]


def test_there_is_a_page_for_nothing_else() -> None:
    alerts = {rule["alert"] for rule in rules()}
    assert {page.stem for page in RUNBOOKS.glob("*.md")} - {"README"} == alerts
    listed = (RUNBOOKS / "README.md").read_text()
    assert [alert for alert in alerts if f"]({alert}.md)" not in listed] == []


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    board = dashboard()
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    squares = [panel["gridPos"] for panel in panels]
    taken = [(x, y) for at in squares for x in range(at["x"], at["x"] + at["w"])
             for y in range(at["y"], at["y"] + at["h"])]  # fmt: skip
    assert len(set(taken)) == len(taken) and max(x for x, _ in taken) < 24
    for panel in panels:
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            assert panel["fieldConfig"]["defaults"]["unit"]
            assert all(target["legendFormat"] for target in panel["targets"])


def test_everything_is_in_the_kustomization() -> None:
    (listed,) = documents("kustomization.yaml")
    named = {*listed["resources"], *listed["configMapGenerator"][0]["files"], "kustomization.yaml"}
    assert {path.name for path in FOLDER.iterdir()} == named
