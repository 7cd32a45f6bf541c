"""deploy/monitoring: each query is of metrics that there are, each alert has its page; the closed ports."""

from __future__ import annotations

from typing import Any, Final

import pytest
import yaml

from fournos.app.parts import TABLE
from tests.unit.deploy.monitoring import FOLDER, dashboard, labels_in, metrics_in, queries, rules
from tests.unit.deploy.shipped import ROOT, documents, everything

RUNBOOKS = ROOT / "docs" / "runbooks"
OF_THE_SCRAPE = {"namespace", "job", "pod", "le"}


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


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_each_alert_has_a_severity_a_text_and_its_page(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert {"summary", "description"} <= set(rule["annotations"])
    assert rule["annotations"]["runbook_url"].endswith(f"/docs/runbooks/{rule['alert']}.md")


def test_there_is_a_page_for_each_alert_and_for_nothing_else() -> None:
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
    (listed,) = documents(FOLDER / "kustomization.yaml")
    named = {*listed["resources"], *listed["configMapGenerator"][0]["files"], "kustomization.yaml"}
    assert {path.name for path in FOLDER.iterdir()} == named


# --- deploy/closed-ports: every port that a NetworkPolicy of ours opens, and no other ----------------

PEERS: Final = {"http": False, "https": False, "metrics": True, "webhooks": True, 9443: True, "api": True}
"""The ports, and whether only some clients reach them."""


def test_each_port_is_closed_to_those_who_do_not_need_it() -> None:
    component = yaml.safe_load((ROOT / "deploy/closed-ports/kustomization.yaml").read_text())
    (patch,) = component["patches"]
    assert patch["target"] == {"kind": "NetworkPolicy"}
    (operation,) = yaml.safe_load(patch["patch"])
    assert (operation["op"], operation["path"]) == ("replace", "/spec/ingress")
    rules = {port["port"]: "from" in rule for rule in operation["value"] for port in rule["ports"]}
    assert rules == PEERS
    opened = {
        port["port"]
        for _, policy in everything("NetworkPolicy")
        for rule in policy["spec"].get("ingress", [])
        for port in rule["ports"]
    }
    assert opened == set(PEERS)
