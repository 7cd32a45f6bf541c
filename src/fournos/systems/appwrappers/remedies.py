"""Texts for messages and warnings: what to do about a component that cannot be created."""

from __future__ import annotations

from typing import Final

from fournos.engine.kube.resource import Resource
from fournos.engine.runtime.decision import StepFailure
from fournos.engine.runtime.steps import Create

WRAPPED_LABEL: Final = "workload.codeflare.dev/wrapped"
"""On ClusterRoles: the operator's own ClusterRole aggregates those with this label."""
_VERBS: Final = "get, list, watch, create and delete"


def no_such_kind(resource: Resource) -> str:
    """Returns the message about a kind that the API server does not serve."""
    return (
        f"this cluster serves no {resource.kind} of {resource.api_version}: "
        "install its CustomResourceDefinition, or correct apiVersion and kind"
    )


def right_to(resource: Resource) -> str:
    """Returns the remedy for a right that the operator lacks."""
    return f'grant {_VERBS} on it with a ClusterRole that has the label {WRAPPED_LABEL}: "true"'


def not_created(failure: StepFailure, create: Create) -> str:
    """Returns why a component was not created, with the remedy if the API server's message has none."""
    if failure.error == "NoSuchResourceError":
        return f"{create.body['metadata']['name']}: {no_such_kind(create.resource)}"
    # An exceeded ResourceQuota is also reported as forbidden, and no right helps against that.
    if failure.error == "ForbiddenError" and "cannot create resource" in failure.message:
        return f"{failure.message}: {right_to(create.resource)}"
    return failure.message
