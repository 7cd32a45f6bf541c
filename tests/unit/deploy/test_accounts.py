"""What each ServiceAccount of the shipped Roles may do, and what it must not: computed, as RBAC only adds.

That an API server agrees is proven by the operators that run with these rights in `tests/integration` and
`tests/e2e`.
"""

from __future__ import annotations

import pytest

from fournos.systems.appwrappers.kinds import WRAPPED
from tests.unit.deploy.test_rights import CLUSTER, shipped

READ = "get,list,watch"
KEEP = f"{READ},create,patch,delete"
JOBS, STATUS = "fournosjobs.fournos.dev", "fournosjobs/status.fournos.dev"
CLUSTERS, WORKLOADS = "fournosclusters.fournos.dev", "workloads.kueue.x-k8s.io"
APPWRAPPERS, MINICLUSTERS = "appwrappers.workload.codeflare.dev", "miniclusters.flux-framework.org"
RUNS = "pipelineruns.tekton.dev"
HOOKS = "validatingwebhookconfigurations.admissionregistration.k8s.io"
QUEUES = "clusterqueues,resourceflavors,workloadpriorityclasses"
OF_MULTIKUEUE = {
    JOBS: "fournosjobs/status.fournos.dev",
    MINICLUSTERS: "miniclusters/status.flux-framework.org",
    APPWRAPPERS: "appwrappers/status.workload.codeflare.dev",
    RUNS: "pipelineruns/status.tekton.dev",
}
"""Kind → its status."""

MAY: dict[str, list[str]] = {
    "fournos": [
        f"{KEEP} {JOBS} @own",
        f"patch {STATUS} @own",
        "update fournosjobs/finalizers.fournos.dev @own",
        f"{KEEP} {WORKLOADS} @own",
        "patch workloads/status.kueue.x-k8s.io @own",
        f"list,watch,create,patch,delete {RUNS} @own",
        "watch pipelines.tekton.dev @own",
        "list,watch,create,delete jobs.batch @own",
        "list,delete pods @own",
        "get pods/log @own",
        "get,create,patch,delete secrets @own",
        "get secrets @$SECRETS_NAMESPACE",
        "create events.events.k8s.io @own",
        "create leases.coordination.k8s.io @own",
        *(f"{READ} {queue}.kueue.x-k8s.io @cluster" for queue in QUEUES.split(",")),
        "get localqueues.kueue.x-k8s.io @own",
        "get admissionchecks.kueue.x-k8s.io @cluster",
    ],
    "fournos-resolver": [f"get,patch {JOBS} @own"],
    "default": [f"get {JOBS} @own", f"patch {STATUS} @own"],
    "hearth": [
        f"{KEEP} {CLUSTERS} @hearth",
        f"list {CLUSTERS} @any",  # the published check asks in whatever namespace one is
        "patch fournosclusters/status.fournos.dev @hearth",
        "create configmaps @hearth",
        "get,patch configmaps @hearth =clusters-removed",
        "create leases.coordination.k8s.io @hearth",
        "update leases.coordination.k8s.io @hearth =hearth",
        "create events.events.k8s.io @hearth",
        f"{READ} secrets @psap-secrets",
        "create events.events.k8s.io @psap-secrets",
        f"{KEEP} {JOBS} @psap-automation",
        f"{READ},patch {WORKLOADS} @psap-automation",
        f"{KEEP} resourceflavors.kueue.x-k8s.io @cluster",
        f"{READ},patch clusterqueues.kueue.x-k8s.io @cluster",
        f"{READ},create workloadpriorityclasses.kueue.x-k8s.io @cluster",
    ],
    "appwrapper-controller-manager": [
        f"{READ},patch {APPWRAPPERS} @any",
        "patch appwrappers/status.workload.codeflare.dev @any",
        "update appwrappers/finalizers.workload.codeflare.dev @any",
        *(
            f"{READ},create,delete {f'{one.resource.plural}.{one.resource.group}'.rstrip('.')} @any"
            for one in WRAPPED
        ),
        "create services @any",
        "watch nodes @cluster",
        "create events.events.k8s.io @any",
        "create subjectaccessreviews.authorization.k8s.io @cluster",
        "create leases.coordination.k8s.io @appwrapper-system",
        "patch leases.coordination.k8s.io @appwrapper-system =appwrappers",
        "patch secrets @appwrapper-system =appwrapper-webhook-service-cert",
        f"watch {HOOKS} @cluster",
        f"patch {HOOKS} @cluster =appwrapper-validating-webhook-configuration",
        # With deploy/appwrapper-own-workloads:
        f"{READ},create,patch {WORKLOADS} @any",
        "patch workloads/status.kueue.x-k8s.io @any",
        "watch resourceflavors.kueue.x-k8s.io @cluster",
        "get localqueues.kueue.x-k8s.io @any",
        "get clusterqueues.kueue.x-k8s.io @cluster",
        "get admissionchecks.kueue.x-k8s.io @cluster",
    ],
    "kueue-controller-manager": [
        f"{READ} {kind} @any" for kind in (JOBS, MINICLUSTERS, RUNS, "taskruns.tekton.dev")
    ],
    "fournos-multikueue": [
        f"{READ} {WORKLOADS} @any",
        "patch workloads/status.kueue.x-k8s.io @any",
        "patch admissionchecks/status.kueue.x-k8s.io @cluster",
        f"{READ} multikueueclusters.kueue.x-k8s.io @cluster",
        *(f"watch {kind} @any" for kind in OF_MULTIKUEUE),
        *(f"patch {status} @any" for status in OF_MULTIKUEUE.values()),
        f"{READ} secrets @kueue-system",
        "create leases.coordination.k8s.io @fournos-system",
    ],
    "multikueue": [
        f"watch,create,delete,patch {WORKLOADS} @any",
        *(f"watch,create,delete {kind} @any" for kind in OF_MULTIKUEUE),
    ],
    "multikueue-logs": [
        f"{READ} {JOBS} @any",
        "list,watch pods @any",
        "list,watch taskruns.tekton.dev @any",
        "get pods/log @any",
    ],
}
ESCALATING = [
    "create pods/exec @own",
    "create serviceaccounts/token @own",
    "create rolebindings.rbac.authorization.k8s.io @own",
    "create clusterrolebindings.rbac.authorization.k8s.io @cluster",
    "impersonate users @cluster",
    "impersonate groups @cluster",
    "impersonate serviceaccounts @own",
    "patch nodes @cluster",
    f"create,patch {HOOKS} @cluster",
]
"""What no account may."""
MAY_NOT: dict[str, list[str]] = {
    "fournos": [
        f"create,delete,list {JOBS} @any",
        "list,watch secrets @own",
        "list,create,delete secrets @$SECRETS_NAMESPACE",
        "get secrets @any",
        "create pods @own",
        "patch clusterqueues.kueue.x-k8s.io @cluster",
        "patch admissionchecks/status.kueue.x-k8s.io @cluster",
        "delete resourceflavors.kueue.x-k8s.io @cluster",
    ],
    "fournos-resolver": [
        "get secrets @own",
        "get secrets @$SECRETS_NAMESPACE",
        f"list,create,delete {JOBS} @own",
        f"patch {STATUS} @own",
        f"delete {WORKLOADS} @own",
        "create pods @own",
    ],
    "default": [f"patch,delete {JOBS} @own", "get secrets @own"],
    "hearth": [
        f"create {CLUSTERS} @any",
        f"delete {CLUSTERS} @psap-automation",
        "create,update,patch,delete secrets @psap-secrets",
        "get,list secrets @hearth",
        "get,list secrets @psap-automation",
        "get,list secrets @any",
        f"create {JOBS} @hearth",
        f"patch {STATUS} @psap-automation",
        f"create,delete {WORKLOADS} @psap-automation",
        "patch workloads/status.kueue.x-k8s.io @psap-automation",
        f"list {WORKLOADS} @any",
        "create,delete clusterqueues.kueue.x-k8s.io @cluster",
        "delete workloadpriorityclasses.kueue.x-k8s.io @cluster",
        "list configmaps @hearth",
        "get,patch configmaps @hearth =another",
        "update leases.coordination.k8s.io @hearth =another",
        "create pods @psap-automation",
        "list nodes @cluster",
    ],
    "appwrapper-controller-manager": [
        f"create,delete {APPWRAPPERS} @any",
        "patch pods @any",
        f"{KEEP} secrets @appwrapper-system",
        "get secrets @any",
    ],
    "kueue-controller-manager": [f"create,delete {JOBS} @any"],
    "fournos-multikueue": [
        "get secrets @any",
        "create,patch secrets @kueue-system",
        "get secrets @psap-secrets",
        f"delete,patch {WORKLOADS} @any",
        f"create,delete {RUNS} @any",
        "create multikueueclusters.kueue.x-k8s.io @cluster",
        "patch multikueueclusters/status.kueue.x-k8s.io @cluster",
    ],
    "multikueue": [
        "get secrets @any",
        f"patch {RUNS} @any",
        "create pods @any",
        "get pods/log @any",
        "patch clusterqueues.kueue.x-k8s.io @cluster",
        "create serviceaccounts/token @kueue-system =multikueue",
    ],
    "multikueue-logs": [
        "get secrets @any",
        "create pods @any",
        f"delete {JOBS} @any",
        "create serviceaccounts/token @kueue-system =multikueue-logs",
    ],
}


def granted(account: str, row: str) -> dict[str, bool]:
    """`VERBS RESOURCE @WHERE [=NAME]` → each right of it, and whether the account has it."""
    verbs, resource, where, name = (*row.split(), "")[:4]
    users, places = {account, "system:serviceaccounts"}, {where.removeprefix("@"), CLUSTER}
    found = {
        (verb, kind)
        for user, place, verb, kind, names in shipped()
        if user in users and place in places and (not names or name[1:] in names.split(","))
    }
    return {f"{verb} {resource} {where} {name}": (verb, resource) in found for verb in verbs.split(",")}


@pytest.mark.parametrize("account", MAY)
def test_an_account_may_do_its_work_and_nothing_else(account: str) -> None:
    may = {right: has for row in MAY[account] for right, has in granted(account, row).items()}
    assert [right for right, has in may.items() if not has] == []
    refused = (*MAY_NOT[account], *ESCALATING)
    may_not = {right: has for row in refused for right, has in granted(account, row).items()}
    assert [right for right, has in may_not.items() if has] == []
