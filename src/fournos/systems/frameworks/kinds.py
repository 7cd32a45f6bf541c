"""The known kinds, as data: PipelineRun, and those that a file adds or replaces."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from fournos.api.kinds import RUN_POD_TEMPLATE
from fournos.engine.queueing.kind_names import BadNameError, parse_name
from fournos.systems.frameworks.kind_spec import FinishRule, Framework, Hold, RequestRule, Stop, When

# Tekton accepts "PipelineRunPending" only at creation, and afterwards no change of the spec except of this
# field.  Users hold runs by it, too.  A run that has started can be cancelled, but not suspended.
PIPELINE_RUN: Final = Framework(
    name="PipelineRun.v1.tekton.dev",
    hold=Hold(
        path="spec.status",
        held="PipelineRunPending",
        released=None,
        only_at_creation=True,
        users_too=True,
    ),
    stop=Stop(path="spec.status", value="Cancelled"),
    requests=RequestRule(pod_template=RUN_POD_TEMPLATE),
    finished=(FinishRule(condition="Succeeded"),),
    ready=When(path="status.startTime"),
)
BUILT_IN: Final[tuple[Framework, ...]] = (PIPELINE_RUN,)


class TableError(ValueError):
    """A file or name that cannot be used; the message has the position and the reason."""


def load(file: str) -> tuple[Framework, ...]:
    """Returns the built-in kinds and those of the YAML file ("" for none), which may replace built-in ones.

    Raises TableError.
    """
    frameworks = {_kind(one): one for one in BUILT_IN}
    if not file:
        return tuple(frameworks.values())
    try:
        body = yaml.safe_load(Path(file).read_text(encoding="utf-8")) or {}
    except (OSError, yaml.YAMLError) as error:
        raise TableError(f"{file} cannot be read: {error}") from None
    rows = body.get("frameworks") if isinstance(body, dict) else None
    if not isinstance(rows, list):
        raise TableError(f"{file} has no list of frameworks")
    listed: set[tuple[str, str]] = set()
    for index, row in enumerate(rows):
        framework = _parsed(row, f"{file}: frameworks[{index}]")
        if _kind(framework) in listed:
            raise TableError(f"{file}: frameworks[{index}]: {framework.name} stands there twice")
        listed.add(_kind(framework))
        frameworks[_kind(framework)] = framework
    return tuple(frameworks.values())


def chosen(frameworks: Iterable[Framework], names: Iterable[str]) -> tuple[Framework, ...]:
    """Returns the kinds with these names; all kinds without names.  Raises TableError for an unknown name."""
    by_name = {one.name: one for one in frameworks}
    unique_names = tuple(dict.fromkeys(names))
    for name in unique_names:
        try:
            parse_name(name)
        except BadNameError as error:
            raise TableError(str(error)) from None
        if name not in by_name:
            raise TableError(f"{name} is not described: known are {', '.join(by_name)}; add it to the file")
    return tuple(by_name[name] for name in unique_names) if unique_names else tuple(by_name.values())


def _kind(framework: Framework) -> tuple[str, str]:
    return framework.resource.group, framework.resource.kind


def _parsed(row: Any, where: str) -> Framework:
    try:
        return Framework.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        at = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in first["loc"])
        raise TableError(f"{where}{at}: {first['msg'].removeprefix('Value error, ')}") from None
