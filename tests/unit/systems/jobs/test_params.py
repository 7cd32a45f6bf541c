"""Parameters and variables of a job, on their way to its run."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.fournosjob import FournosJobSpec
from fournos.api.kinds import PIPELINE
from fournos.engine.api.conditions import condition
from fournos.engine.kube.errors import ServerError
from fournos.engine.kube.resource import JOB, Key
from fournos.engine.runtime.decision import Absent, Answer, Create, Facts, LiveGet, Present, Unknown, User
from fournos.engine.runtime.webhook.review import Request
from fournos.systems.jobs.observe import project_pipeline
from fournos.systems.jobs.own_job import job_webhooks
from fournos.systems.jobs.rules import declared, problem, review
from fournos.systems.jobs.settings import JobSettings
from tests.unit.engine.queueing.test_workload import SILENT
from tests.unit.systems.jobs.actors import NS, job, phase, submit
from tests.unit.systems.jobs.passes import KEY, a_job, a_workload, condition_of, decided, written
from tests.unit.systems.jobs.test_lifecycle import scenario
from tests.unit.systems.jobs.test_resolving import ENGINE, PIPELINE_READ, annotated, resolver, resolving
from tests.world.harness import run
from tests.world.server import Server

PARAMS = [
    {"name": "model", "description": "which", "default": "llama"},
    {"name": "batches", "type": "array"},
    {"name": "options", "type": "object"},
    {"name": "fjob-name", "type": "string"},
]


def pipeline(**annotations: str) -> dict[str, Any]:
    meta = {**annotated("engine:1")["metadata"], "uid": "p", "resourceVersion": "1"}
    meta["annotations"] = {**meta["annotations"], **annotations}
    return {"metadata": meta, "spec": {"params": PARAMS, "tasks": [{"name": "run"}]}}


def test_the_declared_parameters_survive_the_projection() -> None:
    expected = {"model": "string", "batches": "array", "options": "object"}
    assert declared(pipeline()) == expected == declared(project_pipeline(pipeline()))
    assert declared({}) == {}


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({}, ""),
        ({"model": "x", "batches": ("1", "2")}, ""),
        (
            {"modle": "x"},
            "Pipeline 'fournos-full' declares no parameter 'modle' (did you mean 'model'?): "
            "it declares batches, model, options",
        ),
        ({"model": ("x",)}, "Parameter 'model' of Pipeline 'fournos-full' is of type string, not array"),
        ({"batches": "1"}, "Parameter 'batches' of Pipeline 'fournos-full' is of type array, not string"),
        ({"options": "1"}, "Parameter 'options' of Pipeline 'fournos-full' is of type object, not string"),
    ],
)
def test_a_parameter_is_declared_and_of_its_type(params: Any, text: str) -> None:
    assert problem(params, pipeline()) == text


def test_a_pipeline_without_parameters_says_so() -> None:
    text = "Pipeline 'fournos-full' declares no parameter 'x': it declares none that a job can set"
    assert problem({"x": "1"}, annotated("engine:1")) == text


@pytest.mark.parametrize("value", [{"x": 1}, None, ["a", None], [["a"]]])
def test_what_is_no_parameter_is_refused_and_the_job_can_still_be_read(value: Any) -> None:
    spec = FournosJobSpec.model_validate({"params": {"model": value}, "managedBy": "a/b", "shutdown": "Stop"})
    assert (spec.managed_by, spec.shutdown) == ("a/b", "Stop")
    assert problem(spec.params, pipeline()) == "Parameter 'model' is neither a text nor a list of texts"


def test_numbers_and_flags_are_text_as_yaml_wrote_them() -> None:
    spec = FournosJobSpec.model_validate({"params": {"a": 4, "b": 0.5, "c": True, "d": [1, "x"], "e": "f"}})
    assert spec.params == {"a": "4", "b": "0.5", "c": "true", "d": ("1", "x"), "e": "f"}


# --- while the job is resolved ------------------------------------------------------------------------------


def test_an_undeclared_parameter_ends_the_job_before_its_resolver() -> None:
    wrong = resolving(params={"modle": "x"}, answers={PIPELINE_READ: Present(pipeline())})
    assert wrong.steps == () and written(wrong, "phase") == ("Failed",)
    status, reason, message = condition_of(wrong, "Resolved")
    assert (status, reason) == ("False", "InvalidParams") and "did you mean 'model'" in message


def test_a_stale_cache_does_not_end_the_job() -> None:
    """The parameter is new: the cached Pipeline lacks it."""
    found = resolving(params={"model": "x"}, answers={PIPELINE_READ: Present(pipeline())})
    (step,) = found.steps
    assert isinstance(step, Create)
    assert resolving(params={"model": "x"}, pipeline=pipeline()).steps, "no live read is needed"


def test_a_parameter_that_was_changed_since_is_refused_when_the_resolver_has_ended() -> None:
    found = resolving(
        resolver(("Complete", "")), params={"modle": "x"}, answers={PIPELINE_READ: Present(pipeline())}
    )
    assert written(found, "phase") == ("Failed",)
    assert condition_of(found, "Resolved")[1] == "InvalidParams"


def test_a_pipeline_that_was_changed_since_fails_the_job_before_its_run() -> None:
    job = a_job("Admitted", **ENGINE, params={"gone": "x"})
    found = decided(
        job,
        workloads=(a_workload(),),
        pipeline=pipeline(),
        answers={PIPELINE_READ: Present(pipeline())},
    )
    assert not [step for step in found.steps if isinstance(step, Create)]
    assert condition_of(found, "PipelineRunReady")[1] == "InvalidParams"


def test_what_counts_for_the_fingerprint_is_kept_with_the_job() -> None:
    done = {"gpu_resources": frozenset({"fournos/gpu-a100"}), "exclusive": True}
    annotation = {"fournos.dev/fingerprint": "params.model"}
    for notes, kept in ((annotation, {"fingerprint": "params.model"}), ({}, {})):
        found = resolving(resolver(("Complete", "")), pipeline=pipeline(**notes), **done)
        assert written(found, "resolved") == ({"secretRefs": [], **kept},)


# --- the run ------------------------------------------------------------------------------------------------


def run_of(annotations: dict[str, str], **spec: Any) -> Any:
    found = decided(
        a_job("Admitted", **ENGINE, **spec), workloads=(a_workload(),), pipeline=pipeline(**annotations)
    )
    created = [step.body for step in found.steps if isinstance(step, Create)]
    return next(body["spec"] for body in created if body["kind"] == "PipelineRun")


def test_the_run_has_the_parameters_beside_those_of_the_operator() -> None:
    spec = run_of({}, params={"model": "x", "batches": [1, 2]})
    params = {param["name"]: param["value"] for param in spec["params"]}
    assert params["fjob-name"] == "job"
    assert {"model": "x", "batches": ["1", "2"]}.items() <= params.items()


def test_env_reaches_the_steps_where_the_pipeline_asks_for_it() -> None:
    env = {"BATCH": "4"}
    template = run_of({"fournos.dev/env": "steps"}, env=env)["taskRunTemplate"]["podTemplate"]
    assert template["env"] == [{"name": "BATCH", "value": "4"}] and template["volumes"]
    for asks, values in (("", env), ("no", env), ("steps", {})):
        spec = run_of({"fournos.dev/env": asks}, env=values)
        assert "env" not in spec["taskRunTemplate"]["podTemplate"]


# --- the webhook --------------------------------------------------------------------------------------------


def reviewed(answer: Answer, **spec: Any) -> list[str]:
    request = Request("CREATE", User("ann", "", (), ()), KEY, a_job("", **spec))
    facts = Facts({LiveGet(PIPELINE, Key(NS, spec.get("pipeline", "fournos-full"))): answer})
    return [violation.message for violation in review(request, facts).problems]


def test_an_undeclared_parameter_is_refused_at_creation() -> None:
    there = Present(pipeline())
    assert reviewed(there, params={"model": "x", "batches": [1]}) == []
    (text,) = reviewed(there, params={"modle": 1}, pipeline="other")
    assert "it declares batches, model, options" in text
    for unknown in (Absent(), Unknown("timeout")):
        assert reviewed(unknown, params={"modle": 1}) == [], "it is checked again while the job is resolved"


def test_only_jobs_with_parameters_come_to_the_webhook() -> None:
    (webhook, _) = job_webhooks(JobSettings(namespace="bench"))
    assert webhook.conditions == (("has-params", "has(object.spec) && has(object.spec.params)"),)
    assert webhook.failure_policy == "Ignore"


# --- kueue webhook -------------------------------------------------------------------------------------
# Kueue's webhook refuses a resolve Job: the job waits with the reason and the remedy, and then goes on.


async def test_a_resolve_job_that_kueue_holds_up_names_the_cure() -> None:
    messages: list[str] = []

    def setup(server: Server) -> None:
        submit(server)

        def refuse(verb: str, resource: Any, body: Any) -> Any:
            if (verb, resource) != ("create", JOB) or messages:
                return None
            found = condition(job(server), "Retrying") or {}
            messages.extend([found["message"]] if found else [])
            return ServerError(SILENT, status=500)

        server.refusals.append(refuse)

    done = await run(scenario(setup))
    assert phase(done.server) == "Succeeded"
    (message,) = messages
    assert SILENT in message and message.endswith("kubectl apply --server-side -k deploy/kueue)")
