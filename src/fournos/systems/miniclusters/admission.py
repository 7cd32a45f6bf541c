"""What a MiniCluster may ask of its pods: the operator has rights that the author may not have."""

from __future__ import annotations

from typing import Final

from fournos.api.pod_rights import minicluster_reach, operator_account
from fournos.engine.api.values import creation_time
from fournos.engine.kube.resource import Key, Resource
from fournos.engine.runtime.decision import LiveGet, Present, Unknown
from fournos.systems.miniclusters.context import Context

POLICY: Final = "fournos-minicluster-pods"
"""The admission policy of deploy/minicluster, and its binding."""
BINDING: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    namespaced=False,
)


def refusal(ctx: Context) -> str:
    """Returns why the pods are not made, "" if they may be.

    Who wrote a MiniCluster is known at its admission only. So where it asks for more than containers of the
    author's own, the policy that checks the author's rights must be older than the MiniCluster.
    """
    account = operator_account((ctx.spec.get("pod") or {}).get("serviceAccountName"))
    asked = ", ".join(minicluster_reach(ctx.spec))
    if account or not asked or ctx.settings.pod_rights == "open":
        return account
    if ctx.settings.pod_rights == "refused":
        return f"It asks for {asked}, which FOURNOS_MINICLUSTER_POD_RIGHTS refuses: leave it out"
    answer = ctx.facts.require(LiveGet(BINDING, Key("", POLICY)))
    if isinstance(answer, Present) and creation_time(answer.value) <= creation_time(ctx.minicluster):
        return ""
    if isinstance(answer, Unknown):
        return f"It asks for {asked}; whether policy {POLICY} checks that is not known: {answer.reason}"
    return (
        f"It asks for {asked}, and no policy has checked its author's rights: apply "
        "deploy/minicluster/policies.yaml and create it again, or leave that out"
    )
