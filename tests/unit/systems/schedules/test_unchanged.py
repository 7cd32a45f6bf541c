"""skipUnchanged: what counts as the same, and what is not known and therefore runs."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import IMAGE_STREAM, PIPELINE, TASK
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.runtime.decision import Absent, Answer, Decision, LiveGet, LiveList, Present, Unknown
from tests.unit.systems.schedules.actors import ENGINE, NS
from tests.unit.systems.schedules.test_decide import LAST_NIGHT, RAN, look, wrote

OLD, NEW = ("a" * 40, "b" * 40)
ONE, TWO = (f"sha256:{digit * 64}" for digit in "12")
REGISTRY = "image-registry.openshift-image-registry.svc:5000"
GIT = {"of": "GitRef", "fields": ["params.revision"]}
IMAGES = {"of": "ImageDigests"}


def template(**spec: Any) -> Obj:
    return {"spec": {"executionEngine": ENGINE, "exclusive": False, **spec}}


def digest(answers: Any = None, **spec: Any) -> str | None:
    """Returns what a fire of tonight keeps for the comparison."""
    found = look(answers=answers, **spec)
    text: str | None = wrote(found)["active"][0].get("digest")
    said = [event.message for event in found.events if event.reason == "NotComparable"]
    assert bool(said) == (text is None), said
    return text


def missed(before: str | None, answers: Any = None, *, outcome: str = "Succeeded", **spec: Any) -> Any:
    """Returns why a time is skipped after a fire with this digest."""
    last = {"time": LAST_NIGHT, "outcome": outcome, **({"digest": before} if before else {})}
    return wrote(look({**RAN, "lastFire": last}, answers=answers, **spec)).get("missed", {}).get("reason")


# --- params --------------------------------------------------------------------------------------------


def test_params_and_matrix_count_as_they_are_written() -> None:
    written = {
        "jobTemplate": template(params={"a": "1", "b": "{{date}}"}, priority="low"),
        "matrix": {"params.c": ["x"]},
        "skipUnchanged": {"of": "Params"},
    }
    before = digest(**written)
    in_another_order = template(params={"b": "{{date}}", "a": "1"}, priority="high")
    assert missed(before, **{**written, "jobTemplate": in_another_order}) == "Unchanged"
    assert missed(before, **{**written, "jobTemplate": template(params={"a": "2", "b": "{{date}}"})}) is None
    assert missed(before, **{**written, "matrix": {"params.c": ["y"]}}) is None


# --- commits -------------------------------------------------------------------------------------------


def test_the_same_commit_is_skipped_and_another_one_runs() -> None:
    old = {"jobTemplate": template(params={"revision": OLD, "run": "1"}), "skipUnchanged": GIT}
    before = digest(**old)
    assert missed(before, **old) == "Unchanged"
    assert missed(before, **old, outcome="Failed") is None
    again = {**old, "jobTemplate": template(params={"revision": OLD, "run": "2"})}
    assert missed(before, **again) == "Unchanged", "another field does not count"
    assert missed(before, **{**old, "jobTemplate": template(params={"revision": NEW})}) is None


@pytest.mark.parametrize("revision", ["main", "v1.2.3", OLD[:12], "", None, [OLD], OLD.upper()])
def test_what_may_be_another_commit_now_is_not_compared(revision: Any) -> None:
    spec = {"jobTemplate": template(params={"revision": revision}), "skipUnchanged": GIT}
    assert digest(**spec) is None
    assert missed(None, **spec) is None, "two fires of which nothing is known are not the same"


def test_a_commit_may_be_in_any_field_and_in_each_job_of_a_matrix() -> None:
    skip = {"of": "GitRef", "fields": ["executionEngine.forge.ref"]}
    both = {"skipUnchanged": skip, "matrix": {"executionEngine.forge": [{"ref": OLD}, {"ref": NEW}]}}
    before = digest(**both)
    assert missed(before, **both) == "Unchanged"
    one = {"skipUnchanged": skip, "matrix": {"executionEngine.forge": [{"ref": OLD}, {"ref": OLD}]}}
    assert missed(before, **one) is None
    flat = {"skipUnchanged": skip, "matrix": {"executionEngine.forge": ["text"]}}
    assert digest(**flat) is None
    branch = {"skipUnchanged": skip, "matrix": {"executionEngine.forge": [{"ref": OLD}, {"ref": "main"}]}}
    assert digest(**branch) is None


# --- images --------------------------------------------------------------------------------------------


def pipeline(*tasks: Any, resolver: str = f"resolve@{ONE}", params: Any = (), last: Any = ()) -> Obj:
    annotations = {"fournos.dev/resolve-image": resolver}
    spec = {"tasks": list(tasks), "finally": list(last), "params": list(params)}
    return {"metadata": {"name": "p", "annotations": annotations}, "spec": spec}


def embedded(image: str = f"engine@{ONE}", **fields: Any) -> dict[str, Any]:
    return {"name": "run", "taskSpec": {"steps": [{"name": "run", "image": image}], **fields}}


def task(name: str, image: str, **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {"steps": [{"image": image}], **spec}}


def stream(name: str, digest: str) -> Obj:
    tag = {"tag": "latest", "items": [{"image": digest}, {"image": "sha256:older"}]}
    return {"metadata": {"name": name, "namespace": NS}, "status": {"tags": [tag, {"tag": "empty"}]}}


def answers(
    made: Any, *, tasks: tuple[Obj, ...] | Answer = (), streams: tuple[Obj, ...] | Answer = ()
) -> dict[Any, Answer]:
    return {
        LiveGet(PIPELINE, Key(NS, "p")): Present(made) if isinstance(made, dict) else made,
        LiveList(TASK, NS): Present(tasks) if isinstance(tasks, tuple) else tasks,
        LiveList(IMAGE_STREAM, NS): Present(streams) if isinstance(streams, tuple) else streams,
    }


def images(**params: Any) -> Any:
    return {"jobTemplate": template(pipeline="p", params=params), "skipUnchanged": IMAGES}


@pytest.mark.parametrize(
    "other",
    [
        pipeline(embedded(), resolver=f"resolve@{TWO}"),
        pipeline(embedded(f"engine@{TWO}")),
        pipeline(embedded(), last=[embedded(f"clean@{TWO}")]),
        pipeline(embedded(sidecars=[{"image": f"proxy@{TWO}"}])),
        pipeline(embedded(stepTemplate={"image": f"engine@{TWO}"}, steps=[{"name": "run"}])),
    ],
)
def test_the_digest_of_each_image_counts(other: Obj) -> None:
    here = answers(pipeline(embedded()))
    before = digest(here, **images())
    assert missed(before, here, **images()) == "Unchanged"
    moved = answers(pipeline(embedded(f"mirror.example/engine:v2@{ONE}")))
    assert missed(before, moved, **images()) == "Unchanged", "the digest counts, not the name"
    assert missed(before, answers(other), **images()) is None
    assert digest(answers(other), **images()) not in (None, before)


def test_with_the_same_images_another_job_runs() -> None:
    here = answers(pipeline(embedded()))
    assert missed(digest(here, **images(model="a")), here, **images(model="b")) is None
    dated = images(run="nightly-{{date}}")
    assert missed(digest(here, **dated), here, **dated) == "Unchanged", "the time of a fire does not count"


def test_a_task_of_the_namespace_is_read_with_the_parameters_that_it_gets() -> None:
    used = {"name": "run", "taskRef": {"name": "t"}, "params": [{"name": "i", "value": "$(params.image)"}]}
    made = pipeline(used, params=[{"name": "image", "default": f"engine@{ONE}"}])
    template_ = task("t", "$(params.i)", params=[{"name": "i", "default": f"unused@{TWO}"}])
    here = answers(made, tasks=(template_,))
    before = digest(here, **images())
    assert before is not None and missed(before, here, **images()) == "Unchanged"
    tagged = answers(pipeline(used, params=[{"name": "image", "default": "engine:v1"}]), tasks=(template_,))
    assert digest(tagged, **images()) is None
    assert digest(tagged, **images(image=f"engine@{TWO}")) is not None, "the job's parameter comes first"
    around = answers(pipeline(embedded('$(params["image"])'), params=made["spec"]["params"]))
    assert digest(around, **images()) is not None, "an embedded task has the Pipeline's parameters"


def test_a_tag_of_an_image_stream_is_known() -> None:
    made = pipeline(embedded(f"{REGISTRY}/{NS}/engine"), resolver=f"{REGISTRY}/{NS}/engine:latest")
    first = answers(made, streams=(stream("engine", ONE),))
    before = digest(first, **images())
    assert missed(before, first, **images()) == "Unchanged"
    assert missed(before, answers(made, streams=(stream("engine", TWO),)), **images()) is None
    assert digest(answers(made, streams=Absent(no_kind=True)), **images()) is None


@pytest.mark.parametrize(
    "unknown",
    [
        pipeline(embedded("engine:v1")),
        pipeline(embedded(), resolver="resolve:v1"),
        pipeline(embedded(f"quay.io/{NS}/engine:latest")),
        pipeline(embedded("$(params.image)")),
        pipeline(embedded("$(params.image)"), params=[{"name": "image", "default": ["a"]}]),
        pipeline({**embedded("$(params.image)"), "matrix": {"params": [{"name": "image"}]}}),
        pipeline({"name": "run", "taskRef": {"name": "missing"}}),
        pipeline({"name": "run", "taskRef": {"name": "t", "kind": "ClusterTask"}}),
        pipeline({"name": "run", "taskRef": {"resolver": "git", "name": "t"}}),
        pipeline({"name": "run", "taskSpec": {"apiVersion": "example.dev/v1", "kind": "Wait"}}),
        pipeline(embedded(steps=[{"name": "run", "ref": {"name": "action"}}])),
        Absent(),
        Unknown("no right", forbidden=True),
    ],
)
def test_an_image_without_a_digest_is_not_compared(unknown: Any) -> None:
    here = answers(unknown, tasks=(task("t", f"engine@{ONE}"),), streams=(stream("engine", ONE),))
    assert digest(here, **images()) is None
    assert missed(None, here, **images()) is None


def test_a_job_that_the_api_server_refuses_is_compared_all_the_same() -> None:
    spec = {**images(), "matrix": {"params": ["no map"]}}
    assert digest(answers(pipeline(embedded())), **spec) is not None


def test_while_nothing_can_be_read_a_time_waits() -> None:
    assert look(answers=answers(Unknown("etcd")), **images()) == Decision(retry=True)
