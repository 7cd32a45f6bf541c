"""The planner: tables, Kueue's rules as properties, and people's own entries left alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fournos.api.fournoscluster import KubeconfigStatus
from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.api.slots import UNAVAILABLE
from fournos.engine.api.conditions import Condition
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.kinds import CLUSTER_QUEUE
from fournos.engine.runtime.decision import Decision, Facts, Patch, StepFailure
from fournos.systems.clusters.build import RESOURCES_ANNOTATION
from fournos.systems.clusters.clusterqueue import Plan, QuotaInputs, decide, flavor_of, plan
from fournos.systems.clusters.quotas import (
    MAX_FLAVORS,
    MAX_QUOTAS,
    PlannerInput,
    planner_input,
    quota_synced,
)
from fournos.systems.clusters.settings import ClusterSettings
from tests.world.server import clone, merge

PREFIX = "fournos/gpu-"
SLOT = "fournos/cluster-slot"


def queue(*groups: Any, version: str = "7", **used: int) -> dict[str, Any]:
    return {
        "metadata": {"name": "fournos-queue", "resourceVersion": version},
        "spec": {"resourceGroups": list(groups)},
        "status": {
            "flavorsReservation": [
                {"name": name, "resources": [{"name": SLOT, "total": str(total)}]}
                for name, total in used.items()
            ]
        },
    }


def group(resources: list[str], **flavors: list[int]) -> dict[str, Any]:
    return {
        "coveredResources": resources,
        "flavors": [
            {
                "name": name,
                "resources": [{"name": r, "nominalQuota": q} for r, q in zip(resources, quotas, strict=True)],
            }
            for name, quotas in flavors.items()
        ],
    }


def flavors_of(*members: PlannerInput) -> list[Any]:
    return [{**flavor_of(m), "metadata": {**flavor_of(m)["metadata"], "uid": m.name}} for m in members]


def quotas(a_plan: Plan, index: int = 0) -> dict[str, dict[str, str]]:
    assert a_plan.queue is not None
    return {
        entry["name"]: {quota["name"]: str(quota["nominalQuota"]) for quota in entry["resources"]}
        for entry in a_plan.queue["spec"]["resourceGroups"][index]["flavors"]
    }


def syncs(inputs: Iterable[PlannerInput], flavors: Iterable[Any], a_queue: Any) -> dict[str, Condition]:
    by_name = {flavor["metadata"]["name"]: flavor for flavor in flavors}
    wanted = [one for one in inputs if not one.removing]
    return {one.name: quota_synced(one, by_name.get(one.name), a_queue, prefix=PREFIX) for one in wanted}


def applied(before: Mapping[str, Any], a_plan: Plan) -> dict[str, Any]:
    return merge(clone(before), a_plan.queue or {})


def kueue_accepts(a_queue: Mapping[str, Any]) -> None:
    seen: set[str] = set()
    for a_group in a_queue["spec"]["resourceGroups"]:
        covered = a_group["coveredResources"]
        assert len(covered) == len(set(covered)) and not seen & set(covered)
        seen |= set(covered)
        assert all(len(name.rpartition("/")[2]) <= 63 for name in covered)
        assert 1 <= len(a_group["flavors"]) <= MAX_FLAVORS
        assert len(a_group["flavors"]) * len(covered) <= MAX_QUOTAS
        assert len({entry["name"] for entry in a_group["flavors"]}) == len(a_group["flavors"])
        for entry in a_group["flavors"]:
            assert [quota["name"] for quota in entry["resources"]] == covered


def test_the_first_cluster_of_an_empty_queue() -> None:
    a_plan = plan([PlannerInput("c1", {"l40s": 2})], [], queue(), prefix=PREFIX)
    assert [flavor["metadata"]["name"] for flavor in a_plan.create] == ["c1"]
    assert a_plan.create[0]["spec"] == {"nodeLabels": {"fournos.dev/cluster": "c1"}}
    assert a_plan.queue is not None
    assert a_plan.queue["metadata"]["resourceVersion"] == "7"
    assert quotas(a_plan) == {"c1": {SLOT: "100", "fournos/gpu-l40s": "2"}}
    assert syncs([PlannerInput("c1", {"l40s": 2})], [], queue())["c1"].reason == "Pending"


def test_peoples_flavors_and_the_order_of_resources_stay() -> None:
    before = queue(group(["fournos/gpu-h200", SLOT, "cpu"], mine=[8, 100, 64], other=[0, 50, 1]))
    a_plan = plan([PlannerInput("c1", {"a100": 4, "h200": 8})], [], before, prefix=PREFIX)
    assert a_plan.queue is not None
    (after,) = a_plan.queue["spec"]["resourceGroups"]
    assert after["coveredResources"] == ["fournos/gpu-h200", SLOT, "cpu", "fournos/gpu-a100"]
    assert quotas(a_plan) == {
        "mine": {"fournos/gpu-h200": "8", SLOT: "100", "cpu": "64", "fournos/gpu-a100": "0"},
        "other": {"fournos/gpu-h200": "0", SLOT: "50", "cpu": "1", "fournos/gpu-a100": "0"},
        "c1": {"fournos/gpu-h200": "8", SLOT: "100", "cpu": "0", "fournos/gpu-a100": "4"},
    }
    kueue_accepts(applied(before, a_plan))


def test_a_flavor_that_a_user_made_is_left_alone() -> None:
    foreign = {"metadata": {"name": "c1", "uid": "x"}, "spec": {"nodeLabels": {"a": "b"}}}
    before = queue(group([SLOT], c1=[7]))
    a_plan = plan([PlannerInput("c1", {"l40s": 2}, closed="draining")], [foreign], before, prefix=PREFIX)
    assert (a_plan.create, a_plan.taint, a_plan.queue, a_plan.delete) == ((), (), None, ())
    assert syncs([PlannerInput("c1", {"l40s": 2})], [foreign], before)["c1"].reason == "ForeignFlavor"


def test_other_groups_are_not_ours() -> None:
    before = queue(group(["cpu"], x=[5]), group([SLOT], y=[100]), group(["fournos/gpu-l40s"], z=[3]))
    a_plan = plan([PlannerInput("c1", {"l40s": 2, "h100": 8})], [], before, prefix=PREFIX)
    assert a_plan.queue is not None
    first, second, third = a_plan.queue["spec"]["resourceGroups"]
    assert (first, third) == (before["spec"]["resourceGroups"][0], before["spec"]["resourceGroups"][2])
    assert second["coveredResources"] == [SLOT, "fournos/gpu-h100"]


def test_planned_again_nothing_is_to_do() -> None:
    members = [
        PlannerInput("c1", {"a100": 8}),
        PlannerInput("c2", {"mi210": 4}, closed="draining"),
        PlannerInput("c3"),
    ]
    before = queue(group(["fournos/gpu-h200", SLOT], mine=[8, 100]))
    done = applied(before, plan(members, [], before, prefix=PREFIX))
    again = plan(members, flavors_of(*members), done, prefix=PREFIX)
    assert (again.create, again.taint, again.queue, again.delete) == ((), (), None, ())
    assert {name: sync.reason for name, sync in syncs(members, flavors_of(*members), done).items()} == {
        "c1": "Synced",
        "c2": "Closed",
        "c3": "Synced",
    }


def test_removal_takes_everything_with_it() -> None:
    before = queue(group(["fournos/gpu-h200", SLOT], mine=[8, 100]))
    member = PlannerInput("c1", {"a100": 8})
    done = applied(before, plan([member], [], before, prefix=PREFIX))
    assert done["metadata"]["annotations"] == {RESOURCES_ANNOTATION: '["fournos/gpu-a100"]'}
    removed = plan([PlannerInput("c1", {"a100": 8}, removing=True)], flavors_of(member), done, prefix=PREFIX)
    assert [flavor["metadata"]["name"] for flavor in removed.delete] == ["c1"]
    after = applied(done, removed)
    assert after["spec"] == before["spec"] and not after["metadata"]["annotations"]


def test_the_last_cluster_takes_its_group_with_it() -> None:
    done = applied(queue(), plan([PlannerInput("c1")], [], queue(), prefix=PREFIX))
    removed = plan([PlannerInput("c1", removing=True)], flavors_of(PlannerInput("c1")), done, prefix=PREFIX)
    assert applied(done, removed)["spec"] == {"resourceGroups": []}


def test_a_flavor_of_ours_without_a_cluster_goes() -> None:
    before = queue(group([SLOT], c1=[100], mine=[1]))
    a_plan = plan([], flavors_of(PlannerInput("c1")), before, prefix=PREFIX)
    assert quotas(a_plan) == {"mine": {SLOT: "1"}}
    assert len(a_plan.delete) == 1


def test_a_closed_cluster_gives_no_slots_but_to_its_owner() -> None:
    open_, closed = PlannerInput("c1"), PlannerInput("c1", closed="draining")
    before = applied(queue(), plan([open_], [], queue(), prefix=PREFIX))
    a_plan = plan([closed], flavors_of(open_), before, prefix=PREFIX)
    assert quotas(a_plan) == {"c1": {SLOT: "0"}}
    ((flavor, taints),) = a_plan.taint
    assert flavor["metadata"]["name"] == "c1"
    assert taints == [{"key": "fournos.dev/unavailable", "value": "draining", "effect": "NoSchedule"}]
    locked = PlannerInput("c1", closed="draining", for_lock=True)
    assert plan([locked], flavors_of(closed), before, prefix=PREFIX).queue is None


def test_a_cluster_that_opens_gets_its_slots_when_its_flavor_is_seen_without_taint() -> None:
    open_, closed = PlannerInput("c1"), PlannerInput("c1", closed="draining")
    before = applied(queue(), plan([closed], [], queue(), prefix=PREFIX))
    first = plan([open_], flavors_of(closed), before, prefix=PREFIX)
    assert first.taint[0][1] == [] and first.queue is None
    second = plan([open_], flavors_of(open_), before, prefix=PREFIX)
    assert not second.taint and quotas(second) == {"c1": {SLOT: "100"}}
    assert syncs([open_], flavors_of(open_), before)["c1"].reason == "Pending"


def test_a_cluster_that_opens_gets_its_new_gpus_at_once() -> None:
    open_, closed = PlannerInput("c1", {"l4": 2}), PlannerInput("c1", {"l4": 1}, closed="draining")
    before = applied(queue(), plan([closed], [], queue(), prefix=PREFIX))
    opening = plan([open_], flavors_of(closed), before, prefix=PREFIX)
    assert quotas(opening) == {"c1": {SLOT: "0", "fournos/gpu-l4": "2"}}


def test_peoples_taints_stay() -> None:
    flavor = flavors_of(PlannerInput("c1"))[0]
    own = {"key": "team", "value": "x", "effect": "NoSchedule"}
    flavor = {**flavor, "spec": {**flavor["spec"], "nodeTaints": [own]}}
    a_plan = plan([PlannerInput("c1", closed="draining")], [flavor], queue(), prefix=PREFIX)
    assert a_plan.taint[0][1][0] == own and len(a_plan.taint[0][1]) == 2


def test_less_than_is_in_use_is_reported() -> None:
    member = PlannerInput("c1", closed="draining")
    before = queue(c1=5)
    done = applied(before, plan([member], [], before, prefix=PREFIX))
    sync = syncs([member], flavors_of(member), done)["c1"]
    assert (sync.status, sync.reason) == ("True", "BelowUse")
    assert "5 of fournos/cluster-slot in use, quota 0" in sync.message


def test_what_people_set_beside_the_quota_stays() -> None:
    before = queue(group([SLOT], c1=[100]))
    before["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["borrowingLimit"] = 1
    a_plan = plan([PlannerInput("c1", {"l4": 1})], flavors_of(PlannerInput("c1")), before, prefix=PREFIX)
    assert a_plan.queue is not None
    first = a_plan.queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
    assert first == {"name": SLOT, "nominalQuota": 100, "borrowingLimit": 1}


@pytest.mark.parametrize("short", ["a" * 40 + "mig" + "1" * 20, "x" * 60, "a/b", "-"])
def test_gpus_that_no_resource_can_be_named_after_cost_the_others_nothing(short: str) -> None:
    members = [PlannerInput("bad", {short: 4, "l4": 1}), PlannerInput("good", {"h200": 8})]
    first = plan(members, [], queue(), prefix=PREFIX)
    assert quotas(first)["good"][f"{PREFIX}h200"] == "8"
    assert quotas(first)["bad"][f"{PREFIX}l4"] == "1"
    assert f"{PREFIX}{short}" not in quotas(first)["bad"]
    after = applied(queue(), first)
    kueue_accepts(after)
    assert plan(members, flavors_of(*members), after, prefix=PREFIX).queue is None
    found = syncs(members, flavors_of(*members), after)
    assert found["good"].status == "True"
    reported = found["bad"]
    assert (reported.status, reported.reason) == ("False", "ResourceNameInvalid")
    assert f"{PREFIX}{short}" in reported.message


def test_a_quota_that_cannot_be_read_is_written_anew_or_left_alone() -> None:
    odd = "9" * 5000
    before = queue(group([SLOT], mine=[odd], c1=[odd]))  # type: ignore[list-item]
    found = quotas(plan([PlannerInput("c1")], flavors_of(PlannerInput("c1")), before, prefix=PREFIX))
    assert (found["c1"][SLOT], found["mine"][SLOT]) == ("100", odd)


def test_a_refusal_is_reported_where_there_is_a_right() -> None:
    """Of the ClusterQueue, which has no namespace, an event could only be written in `default`."""
    clusters = tuple(
        {"metadata": {"namespace": "hearth", "name": name, "uid": name}} for name in ("bad", "good")
    )
    seen = QuotaInputs(Key("", "q"), clusters, (), queue())
    now = datetime(2030, 1, 1, tzinfo=UTC)
    first = decide(seen, Facts(), now, settings=ClusterSettings())
    assert isinstance(first, Decision)
    (patch,) = [step for step in first.steps if isinstance(step, Patch) and step.resource is CLUSTER_QUEUE]
    failure = StepFailure(patch, "InvalidError", "no more than 64", False, 1)
    second = decide(seen, Facts(failure=failure), now, settings=ClusterSettings())
    assert isinstance(second, Decision) and second.retry
    assert [(note.reason, note.about) for note in second.events] == [
        ("QuotaRefused", (FOURNOS_CLUSTER, cluster)) for cluster in clusters
    ]
    assert all("no more than 64" in note.message for note in second.events)


def test_limits() -> None:
    everyone = [PlannerInput(f"c{n:02}") for n in range(70)]
    after = applied(queue(), plan(everyone, [], queue(), prefix=PREFIX))
    kueue_accepts(after)
    found = syncs(everyone, flavors_of(*everyone), after)
    full = [name for name, sync in found.items() if sync.reason == "LimitReached"]
    assert full == [f"c{n:02}" for n in range(64, 70)]
    varied = [PlannerInput(f"c{n:02}", {f"gpu{n}": 1}) for n in range(50)]
    a_plan = plan(varied, [], queue(), prefix=PREFIX)
    after = applied(queue(), a_plan)
    kueue_accepts(after)
    assert len(after["spec"]["resourceGroups"][0]["flavors"]) == 50
    found = syncs(varied, flavors_of(*varied), after)
    counted = {name: sync.reason for name, sync in found.items()}
    assert set(counted.values()) == {"Synced", "LimitReached"}
    covered = after["spec"]["resourceGroups"][0]["coveredResources"]
    assert [n for n in range(50) if f"{PREFIX}gpu{n}" in covered] == [
        n for n in range(50) if counted[f"c{n:02}"] == "Synced"
    ]


def test_without_a_queue() -> None:
    a_plan = plan([PlannerInput("c1")], [], None, prefix=PREFIX)
    assert len(a_plan.create) == 1 and a_plan.queue is None
    assert syncs([PlannerInput("c1")], [], None)["c1"].reason == "NoClusterQueue"


SHORT = st.sampled_from(["a100", "h100", "mi210", "l40s", "gaudi"])
MEMBERS = st.dictionaries(
    st.sampled_from([f"c{n}" for n in range(8)]),
    st.builds(
        dict,
        gpus=st.dictionaries(SHORT, st.integers(0, 16)),
        closed=st.sampled_from(["", "draining"]),
        for_lock=st.booleans(),
        removing=st.booleans(),
    ),
)
PEOPLES = st.dictionaries(st.sampled_from(["mine", "yours", "c1"]), st.integers(0, 9))


@settings(max_examples=150)
@given(MEMBERS, MEMBERS, PEOPLES, st.permutations([SLOT, "cpu", "fournos/gpu-h100"]))
def test_whatever_comes_kueue_accepts_it_and_it_settles(
    first: Any, second: Any, people: dict[str, int], resources: list[str]
) -> None:
    before = queue(*([group(resources, **{n: [q] * 3 for n, q in people.items()})] if people else []))
    flavors: dict[str, Any] = {name: {"metadata": {"name": name}} for name in people}
    for members in (first, second, second):
        wanted = [PlannerInput(name, **fields) for name, fields in members.items()]
        a_plan = plan(wanted, flavors.values(), before, prefix=PREFIX)
        before = applied(before, a_plan)
        kueue_accepts(before)
        for flavor in a_plan.create:
            assert flavor["metadata"]["name"] not in flavors
            flavors[flavor["metadata"]["name"]] = flavor
        for flavor, taints in a_plan.taint:
            flavors[flavor["metadata"]["name"]] = {**flavor, "spec": {**flavor["spec"], "nodeTaints": taints}}
        for flavor in a_plan.delete:
            del flavors[flavor["metadata"]["name"]]
    again = plan(wanted, flavors.values(), before, prefix=PREFIX)
    assert (again.create, again.taint, again.queue, again.delete) == ((), (), None, ())
    pending = {
        name for name, sync in syncs(wanted, flavors.values(), before).items() if sync.reason == "Pending"
    }
    assert not pending, "what the planner leaves as it is counts as written"
    entries = {e["name"]: e for g in before["spec"]["resourceGroups"] for e in g["flavors"]}
    for name, quota in people.items():
        kept = {q["name"]: int(q["nominalQuota"]) for q in entries[name]["resources"]}
        assert all(kept[resource] == quota for resource in resources)
    assert set(entries) == set(people) | {m.name for m in wanted if not m.removing}


# --- planner inputs ------------------------------------------------------------------------------------
# The input of the planner from a FournosCluster.

OPEN = {"status": {"kubeconfigStatus": "Valid"}}


def member(**cluster: Any) -> PlannerInput:
    return planner_input({"metadata": {"name": "c1"}, **cluster})


def test_a_closed_cluster_has_slots_for_a_lock_that_is_about_to_be_held_and_else_none() -> None:
    about_to: list[tuple[Any, ...]] = []
    for owner, drain, jobs, state, health in product(
        ("", "ann"), (None, "Wait"), (0, 2), (None, "Requested", "Held"), ("Valid", "Unreachable")
    ):
        lock = {"lock": {"state": state}} if state else {}
        status = {"kubeconfigStatus": health, "runningJobs": jobs, **lock}
        spec = {"owner": owner, **({"drain": drain} if drain else {})}
        found = member(spec=spec, status=status)
        if not found.closed:
            continue
        if found.for_lock:
            about_to.append((owner, jobs, state))
            continue
        # Kueue looks again at who waits when the ClusterQueue changes: opening it must change that.
        closed = applied(queue(), plan([found], flavors_of(found), queue(), prefix=PREFIX))
        reopened = plan([member(**OPEN)], flavors_of(member(**OPEN)), closed, prefix=PREFIX)
        assert quotas(reopened) == {"c1": {SLOT: "100"}}, (spec, status)
    assert set(about_to) == {("ann", 0, None), ("ann", 0, "Requested")}


def test_every_reason_for_taking_no_jobs_has_words() -> None:
    gone = {"deletionTimestamp": "2030-01-01T00:00:00Z"}
    found = {
        planner_input({"metadata": {"name": "c1", **gone}}).closed,
        member(spec={"drain": "Stop"}).closed,
        member().closed,
        *(member(status={"kubeconfigStatus": status.value}).closed for status in KubeconfigStatus),
    }
    assert found - {""} == set(UNAVAILABLE)
