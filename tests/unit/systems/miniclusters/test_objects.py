"""The objects that are made: what the page promises of each."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.engine.queueing.podsets import PodSetInfo
from fournos.systems.miniclusters import build, health, names
from fournos.systems.miniclusters.rules import RULES, check_manifest
from fournos.systems.miniclusters.settings import MiniClusterSettings
from tests.minicluster_cases import CHANGES, CREATIONS, FREE, Case, Change, of
from tests.minicluster_cases import minicluster as of_case
from tests.rule_cases import merged
from tests.unit.systems.miniclusters.objects import SETTINGS, TABLE, made, minicluster

OWNER = {
    "apiVersion": "flux-framework.org/v1alpha2",
    "kind": "MiniCluster",
    "name": "flux-sample",
    "uid": "uid-1",
    "controller": True,
    "blockOwnerDeletion": True,
}


# --- the whole ---------------------------------------------------------------------------------------


def test_what_is_made_and_in_which_order() -> None:
    found = list(made(containers=TABLE["sidecars"]["spec"]["containers"], services=[{"name": "s"}]))
    assert found == [
        "ConfigMap/flux-sample-entrypoint",
        "Pod/flux-sample-services",
        "Service/side",
        "Job/flux-sample",
    ]


@pytest.mark.parametrize("name", TABLE)
def test_all_is_owned_by_the_minicluster(name: str) -> None:
    for one in build.wanted(TABLE[name], SETTINGS):
        assert one["metadata"]["ownerReferences"] == [OWNER]
        assert one["metadata"]["namespace"] == "ns"


def test_nothing_of_the_certificate_is_in_the_config_map() -> None:
    found = made(flux={"curveCert": "very secret"})
    assert "very secret" not in str(found)
    secret = build.certificate_secret(
        minicluster(flux={"curveCert": "very secret"}), SETTINGS, certificate="made"
    )
    assert secret["stringData"] == {"curve.cert": "very secret"}
    secret = build.certificate_secret(minicluster(), SETTINGS, certificate="made")
    assert (secret["metadata"]["name"], secret["stringData"]) == ("flux-sample-curve", {"curve.cert": "made"})


# --- the Job -----------------------------------------------------------------------------------------


def test_the_job() -> None:
    found = made(size=4, jobLabels={"a": "b"}, deadlineSeconds=100)["Job/flux-sample"]
    spec = {key: value for key, value in found["spec"].items() if key != "template"}
    assert found["metadata"]["labels"]["a"] == "b"
    assert spec == {
        "backoffLimitPerIndex": 100,
        "maxFailedIndexes": 0,
        "completionMode": "Indexed",
        "completions": 4,
        "parallelism": 4,
        "activeDeadlineSeconds": 100,
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "Ignore",
                    "onExitCodes": {"containerName": "flux-sample", "operator": "In", "values": [117]},
                },
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {
                    "action": "FailJob",
                    "onExitCodes": {
                        "containerName": "flux-sample",
                        "operator": "NotIn",
                        "values": [137, 143],
                    },
                },
            ]
        },
    }


def test_retries_that_are_asked_for() -> None:
    """Of each pod: a worker that fails beside its lead uses up none of the command's."""
    spec = made(backoffLimit=2)["Job/flux-sample"]["spec"]
    assert (spec["backoffLimitPerIndex"], spec["maxFailedIndexes"]) == (2, 0)
    assert "backoffLimit" not in spec
    assert [rule["action"] for rule in spec["podFailurePolicy"]["rules"]] == ["Ignore", "Ignore"]


def test_nothing_is_run_again_for_a_container_beside_flux() -> None:
    side = {"name": "side", "runFlux": False}
    for limit, actions in ((None, ["FailJob", "Count"]), (2, ["Count"])):
        spec = made(
            containers=[{"command": "c"}, side], **({} if limit is None else {"backoffLimit": limit})
        )["Job/flux-sample"]["spec"]
        *rules, last = spec["podFailurePolicy"]["rules"]
        assert [rule["action"] for rule in rules] == ["Ignore", "Ignore", *actions]
        codes = {"containerName": "side", "operator": "NotIn", "values": [0]}
        assert last == {"action": "FailIndex", "onExitCodes": codes}
        assert spec["backoffLimitPerIndex"] == spec["backoffLimit"]
        assert "maxFailedIndexes" not in spec, "an index that is not run again must not fail the Job"


def test_a_policy_on_failures_goes_with_restart_policy_never_only() -> None:
    spec = made(pod={"restartPolicy": "OnFailure"})["Job/flux-sample"]["spec"]
    assert spec["template"]["spec"]["restartPolicy"] == "OnFailure"
    assert "podFailurePolicy" not in spec


def test_the_pods_labels() -> None:
    labels = made(pod={"labels": {"a": "b", "namespace": "mine", "app": "x"}})["Job/flux-sample"]["spec"][
        "template"
    ]["metadata"]["labels"]
    assert labels == {
        "a": "b",
        "namespace": "ns",
        "app": "x",
        "app.kubernetes.io/name": "flux-sample",
        "hpa-selector": "flux-sample",
        names.MINICLUSTER_LABEL: "flux-sample",
        names.HEADLESS_LABEL: "flux-service",
    }


PATCHED = {
    "metadata": {
        "labels": {"job-index": "3"},
        "annotations": {"batch.kubernetes.io/job-index-ignored-failure-count": None},
    }
}
"""The Job controller waits twice as long after each stop that it remembers: it is to remember none."""


@pytest.mark.parametrize(
    ("labels", "patch"),
    [
        ({names.COMPLETION_INDEX_LABEL: "3"}, PATCHED),
        ({names.COMPLETION_INDEX_LABEL: "3", "job-index": "3"}, None),
        ({names.COMPLETION_INDEX_LABEL: "3", "job-index": "0"}, PATCHED),
        ({}, None),
    ],
)
def test_the_index_label(labels: dict[str, str], patch: Any) -> None:
    assert build.index_label({"metadata": {"labels": labels}}) == patch


def test_an_admission_is_put_into_the_pods() -> None:
    infos = {
        "main": PodSetInfo("main", 4, node_selector={"flavor": "a"}, labels={"l": "1"}),
        "services": PodSetInfo("services", 1, node_selector={"flavor": "b"}),
    }
    found = build.wanted(minicluster(services=[{"name": "s"}], size=4), SETTINGS, infos=infos)
    by_kind = {one["kind"]: one for one in found}
    template = by_kind["Job"]["spec"]["template"]
    assert template["spec"]["nodeSelector"] == {"flavor": "a"}
    assert template["metadata"]["labels"]["l"] == "1"
    assert by_kind["Pod"]["spec"]["nodeSelector"] == {"flavor": "b"}


def test_quota_is_asked_for_the_largest_size() -> None:
    sets = build.pod_sets(minicluster(size=2, maxSize=6, services=[{"name": "s"}]), SETTINGS)
    assert [(one.name, one.count) for one in sets] == [("main", 6), ("services", 1)]


# --- Services ----------------------------------------------------------------------------------------


def other(**spec: Any) -> dict[str, Any]:
    found = minicluster(**spec)
    return {**found, "metadata": {**found["metadata"], "name": "other", "uid": "uid-2"}}


def headless(minicluster_: dict[str, Any], existing: Any = None) -> Any:
    return build.headless_service(minicluster_, SETTINGS, existing=existing)


def test_a_resize_changes_nothing_that_is_queued() -> None:
    """Kueue would take the Workload for that of another job."""
    sizes = [build.pod_sets(minicluster(size=size, maxSize=120), MiniClusterSettings()) for size in (2, 64)]
    assert sizes[0] == sizes[1]


def test_the_headless_service() -> None:
    found = headless(minicluster())
    assert found["metadata"]["name"] == "flux-service"
    assert found["metadata"]["ownerReferences"] == [
        {**OWNER, "controller": False, "blockOwnerDeletion": False}
    ]
    assert found["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {names.HEADLESS_LABEL: "flux-service"},
    }
    assert headless(minicluster(network={"headlessName": "mine"}))["metadata"]["name"] == "mine"


def test_two_miniclusters_share_it() -> None:
    first = headless(minicluster())
    assert headless(minicluster(), first) == first, "nothing to do"
    both = headless(other(), first)
    assert [owner["uid"] for owner in both["metadata"]["ownerReferences"]] == ["uid-1", "uid-2"]
    assert both["spec"] == first["spec"]


def test_a_minimal_service_names_lead_brokers_only() -> None:
    minimal = headless(minicluster(flux={"minimalService": True}))
    assert minimal["spec"]["selector"] == {
        names.HEADLESS_LABEL: "flux-service",
        "batch.kubernetes.io/job-completion-index": "0",
    }
    wide = headless(other(), minimal)
    assert wide["spec"]["selector"] == {names.HEADLESS_LABEL: "flux-service"}
    assert headless(minicluster(flux={"minimalService": True}), wide) == wide, "what others need stays"


def test_a_foreign_service_is_refused_with_a_reason() -> None:
    found = headless(minicluster(), {"metadata": {"name": "flux-service"}, "spec": {}})
    assert found == (
        "Service flux-service belongs to somebody else: choose another name with network.headlessName, "
        "or delete that Service"
    )


def test_a_sidecar_with_several_ports() -> None:
    found = made(containers=TABLE["sidecars"]["spec"]["containers"])["Service/side"]["spec"]
    selector = found["selector"]
    assert selector.items() <= made()["Job/flux-sample"]["spec"]["template"]["metadata"]["labels"].items()
    services = made(services=[{"name": "s"}])["Pod/flux-sample-services"]["metadata"]["labels"]
    assert not selector.items() <= services.items()
    assert selector["flux-framework.org/minicluster"] == "flux-sample"
    assert [(port["name"], port["port"]) for port in found["ports"]] == [("port-80", 80), ("port-443", 443)]


# --- the result --------------------------------------------------------------------------------------


def of_lead(**state: Any) -> dict[str, Any]:
    return {"status": {"containerStatuses": [{"name": "side"}, {"name": "flux-sample", **state}]}}


@pytest.mark.parametrize(
    ("pod", "code"),
    [
        ({}, None),
        (of_lead(state={"running": {}}), None),
        (of_lead(state={"terminated": {"exitCode": 0, "message": "0"}}), 0),
        (of_lead(state={"terminated": {"exitCode": 1, "message": "137"}}), 137),
        (of_lead(state={"terminated": {"exitCode": 137}}), None),
        (of_lead(state={"running": {}}, lastState={"terminated": {"exitCode": 3, "message": "3"}}), 3),
        (of_lead(state={"terminated": {"exitCode": 1, "message": "cannot start"}}), None),
    ],
)
def test_the_result_is_the_leads_own(pod: dict[str, Any], code: int | None) -> None:
    assert health.exit_code(pod, "flux-sample") == code


# --- rules ---------------------------------------------------------------------------------------------
# The objects that the rules refuse, and the remedies in the messages.


def broken(new: Any, old: Any = None) -> dict[str, str]:
    return {violation.rule: violation.message for violation in check_manifest(new, old)}


@pytest.mark.parametrize("case", CREATIONS, ids=lambda case: case.rule)
def test_a_creation_is_refused_with_the_fix(case: Case) -> None:
    found = broken(case.bad)
    assert case.says in found[case.rule]
    assert broken(case.good) == {}


def stored(change: Change) -> dict[str, Any]:
    return of_case(change.spec) | ({"status": {"maximumSize": change.maximum}} if change.maximum else {})


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.rule)
def test_a_change_is_refused_with_the_fix(change: Change) -> None:
    old = stored(change)
    found = broken(merged(old, {"spec": change.patch}), old)
    assert change.says in found[change.rule]


@pytest.mark.parametrize(("spec", "patch"), FREE)
def test_a_change_passes(spec: Any, patch: Any) -> None:
    old = of_case(spec)
    assert broken(merged(old, {"spec": patch}), old) == {}


def test_every_rule_has_a_case() -> None:
    assert {rule.id for rule in RULES} == {case.rule for case in (*CREATIONS, *CHANGES)}


def test_what_was_stored_before_a_rule_can_still_be_changed() -> None:
    old = of_case(of(size=0))
    labelled = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert broken(labelled, old) == {}


def test_a_number_where_a_quantity_is_meant_is_refused() -> None:
    """The page: a text or a whole number, an error for anything else."""

    def with_cpu(amount: Any) -> dict[str, Any]:
        return of_case(of(containers=[{"image": "x", "resources": {"limits": {"cpu": amount}}}]))

    assert broken(with_cpu(4)) == broken(with_cpu("4")) == broken(with_cpu("500m")) == {}
    assert set(broken(with_cpu(0.5))) == set(broken(with_cpu("four"))) == {"schema"}


@pytest.mark.parametrize(("policy", "refused"), [("easy", False), ("", False), ("best", True)])
def test_an_unknown_queue_policy_is_refused(policy: str, refused: bool) -> None:
    """Flux would run it as fcfs without a word."""
    found = broken(of_case(of(flux={"scheduler": {"queuePolicy": policy}})))
    assert set(found) == ({"schema"} if refused else set())


# --- settings ------------------------------------------------------------------------------------------
# Each variable of the MiniCluster operator is seen in the objects that it makes.


@pytest.mark.parametrize(
    ("variable", "value", "seen"),
    [
        ("VIEW_IMAGE", "example.com/view:7", "'image': 'example.com/view:7'"),
        ("NETWORK_DEVICE", "net7", "tcp://net7:"),
    ],
)
def test_it_is_seen_in_the_objects(
    variable: str, value: str, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seen not in str(build.wanted(minicluster(), MiniClusterSettings()))
    monkeypatch.setenv(f"FOURNOS_MINICLUSTER_{variable}", value)
    assert seen in str(build.wanted(minicluster(), MiniClusterSettings()))
