"""The components of an AppWrapper and how each does, from facts that are already read.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fournos.api.appwrapper import DEFINITION
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.rules import Violation
from fournos.engine.api.schema_readers import schema_violations
from fournos.engine.kube.resource import Obj
from fournos.insight.appwrapper_reasons import WrapperMembers
from fournos.insight.errors import ManifestError, refusal
from fournos.insight.values import name_of, spec_of, status_of
from fournos.systems.appwrappers.admission import problems
from fournos.systems.appwrappers.build import WrapError, wrap
from fournos.systems.appwrappers.health import ComponentState, Count, component_of, count, other
from fournos.systems.appwrappers.kinds import wrapped_kind
from fournos.systems.appwrappers.names import USER_LABEL


@dataclass(frozen=True, slots=True)
class WrappedComponent:
    """A wrapped resource."""

    kind: str
    name: str
    """The name of the resource; "(generated)" before one with a generateName is created."""
    state: str
    """Such as ready, pending, succeeded or "failed: REASON"; "not made" before its creation, "gone" after."""
    pods: Count | None
    """Its pods by state; None if it has none."""


def components(wrapper: Obj, members: WrapperMembers) -> list[WrappedComponent]:
    """Returns the components in their order in the spec."""
    statuses = status_of(wrapper).get("componentStatus") or ()
    listed = spec_of(wrapper).get("components") or ()
    result = []
    for index, component in enumerate(listed):
        template = component["template"]
        status = statuses[index] if index < len(statuses) else {}
        asked = (template.get("metadata") or {}).get("name") or "(generated)"
        pods = [pod for pod in members.pods if component_of(pod, len(listed)) == index]
        result.append(
            WrappedComponent(
                str(template.get("kind")),
                str(status.get("name") or asked),
                _state(template, status, members.components.get(index)),
                count(pods) if pods else None,
            )
        )
    return result


def _state(template: Obj, status: Any, live: Obj | None) -> str:
    if is_true({"status": status}, "Finished"):
        return ComponentState.SUCCEEDED.value
    if live is None:
        deployed = condition({"status": status}, "ResourcesDeployed") or {}
        return "gone" if deployed.get("status") == "True" else "not made"
    kind = wrapped_kind(template)
    judged = other if kind is None else kind.health
    judgement = judged(live) if judged is not None else None
    if judgement is None:
        return "there"
    return f"{judgement.state.value}: {judgement.message}".removesuffix(": ")


def kinds(wrapper: Obj) -> list[str]:
    """The kinds of the components with their numbers, such as Pod, 2 Service."""
    found = [str(one["template"].get("kind")) for one in spec_of(wrapper).get("components") or ()]
    counts = {kind: found.count(kind) for kind in found}
    return [kind if number == 1 else f"{number} {kind}" for kind, number in counts.items()]


def user_of(wrapper: Obj) -> str:
    """The user who created it, as the webhook has recorded; "" if it was not recorded."""
    return str((wrapper["metadata"].get("labels") or {}).get(USER_LABEL) or "")


def resets(wrapper: Obj) -> int:
    """How often the AppWrapper was reset after a failure that counts."""
    return int(status_of(wrapper).get("resettingCount") or 0)


def wrapped(
    manifests: Sequence[Mapping[str, Any]],
    *,
    name: str | None,
    namespace: str | None,
    queue: str | None,
    option: str = "--name",
) -> dict[str, Any]:
    """Returns the AppWrapper of these manifests, checked by the rules of the API server and the webhook.

    Without a `name` it is named like the first resource.  `option` is the caller's way to name it, for the
    error.  Raises ManifestError.
    """
    chosen = name or str((manifests[0].get("metadata") or {}).get("name") or "")
    if not chosen:
        raise ManifestError("the first manifest has no name to take", fix=f"give one with {option}")
    try:
        wrapper = wrap(manifests, name=chosen, namespace=namespace, queue=queue)
    except WrapError as error:
        raise ManifestError(str(error), fix="correct the manifests and wrap them again") from None
    _refuse(wrapper, problems(wrapper))
    return wrapper


def accepted(wrapper: Obj) -> None:
    """Raises ManifestError with every reason for which this AppWrapper would be refused."""
    _refuse(wrapper, schema_violations(DEFINITION, wrapper) or problems(wrapper))


def _refuse(wrapper: Obj, broken: Sequence[Violation]) -> None:
    if broken:
        raise refusal(name_of(wrapper), broken, fix="correct the manifests and wrap them again")
