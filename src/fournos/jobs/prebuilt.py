"""On a worker: a job whose Workload was there before it, made by MultiKueue (Kueue's prebuilt Workloads)."""

from __future__ import annotations

from fournos.jobs.context import Context
from fournos.jobs.finish import OUT_OF_SYNC, fail
from fournos.jobs.waiting import wait
from fournos.kube.resource import Key, Obj, controller_of, key_of, owner_reference, uid_of
from fournos.queueing.ensure import prebuilt_name
from fournos.queueing.kinds import WORKLOAD
from fournos.queueing.workload import WorkloadRequest, build
from fournos.runtime.decision import Absent, Decision, LiveGet, Present
from fournos.runtime.steps import Patch


def adopt(ctx: Context) -> Decision:
    """Becomes its controller, before anything else: how the job ends, it ends by its Workload."""
    name = prebuilt_name(ctx.job)
    answer = ctx.facts.require(LiveGet(WORKLOAD, Key(ctx.namespace, name)))
    if not isinstance(answer, Present):
        missing = isinstance(answer, Absent)
        text = f"Waiting: its Workload '{name}' {'is not there' if missing else 'cannot be read'}"
        return wait(ctx, "WorkloadAdmitted", "PrebuiltMissing", text)
    workload: Obj = answer.value
    owner = controller_of(workload)
    if owner is None:
        body = {
            "metadata": {
                "resourceVersion": workload["metadata"]["resourceVersion"],
                "ownerReferences": [owner_reference(ctx.resource, ctx.job)],
            }
        }
        return Decision((Patch(WORKLOAD, key_of(workload), body),))
    if owner["uid"] == uid_of(ctx.job):
        return Decision(retry=True)  # the cache is about to show it
    text = f"Workload '{name}' belongs to {owner['kind']} {owner['name']}"
    return fail(ctx, text, type_="WorkloadAdmitted", reason="PrebuiltTaken")


def join(ctx: Context, request: WorkloadRequest, message: str) -> Decision:
    """Where other jobs make a Workload: this one has it, if it still fits what was resolved."""
    workload = ctx.workload
    if workload is None:
        return adopt(ctx)
    if differs(workload, request):
        return out_of_sync(ctx)
    ctx.draft.enter("Pending", message).condition("WorkloadAdmitted", "False", "Pending", message)
    return ctx.decision()


def out_of_sync(ctx: Context) -> Decision:
    """Final, and told to the manager by the Workload's reason."""
    text = "The prebuilt workload is out of sync with its user job"
    advice = "write the GPUs that it needs into spec.hardware where it is submitted"
    return fail(ctx, f"{text}: {advice}", type_="WorkloadAdmitted", reason=OUT_OF_SYNC)


def differs(workload: Obj, request: WorkloadRequest) -> bool:
    """Whether the job asks for something else than its Workload."""
    wanted = build(request)["spec"]
    pods, wanted_pods = (spec["podSets"][0]["template"]["spec"] for spec in (workload["spec"], wanted))
    return bool(
        pods["containers"][0]["resources"]["requests"]
        != wanted_pods["containers"][0]["resources"]["requests"]
        or (pods.get("nodeSelector") or {}) != (wanted_pods.get("nodeSelector") or {})
    )
