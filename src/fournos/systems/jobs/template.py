"""The template of the resolve Job: a YAML file that the settings name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

import fournos
from fournos.api.pod_rights import operator_account
from fournos.engine.kube.resource import Obj

_PACKAGE = Path(fournos.__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Template:
    """The parsed Job, or the reason why it cannot be used."""

    path: str
    body: Obj | None
    error: str = ""


def template_roots() -> tuple[Path, ...]:
    """Returns the directories in which a relative path of a template is searched.

    They are the working directory, a checkout, and the installed data.
    """
    return (Path.cwd(), _PACKAGE.parents[1], _PACKAGE / "_data")


def load_template(path: str, *, roots: tuple[Path, ...]) -> Template:
    """Reads the template from the first root that contains it; an absolute path is used as it is.

    The operator keeps running with an invalid template.  Each job then reports the error in its condition.
    """
    for root in roots:
        candidate = root / path
        if not candidate.is_file():
            continue
        try:
            body = yaml.safe_load(candidate.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError) as error:
            return Template(path, None, f"cannot be read: {error}")
        problem = _problem(body)
        return Template(path, None if problem else body, problem)
    return Template(path, None, "no such file")


def _problem(body: object) -> str:
    if not isinstance(body, dict) or body.get("kind") != "Job":
        return "is not a batch/v1 Job"
    pod = ((body.get("spec") or {}).get("template") or {}).get("spec") or {}
    containers = pod.get("containers")
    if not isinstance(containers, list) or not containers:
        return "has no container in spec.template.spec.containers"
    # The image is the choice of a job's author.
    account = operator_account(pod.get("serviceAccountName") or pod.get("serviceAccount"))
    return f"cannot be used: {account}" if account else ""
