"""What can be done with a job, as buttons with their question and the equivalent command.  Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from fournos.engine.kube.resource import Obj, is_terminating
from fournos.insight.values import is_terminal, name_of, spec_of
from fournos.web.runs.subject import JobSubject


@dataclass(frozen=True, slots=True)
class JobOffer:
    """An action: a button that opens a question with a form.  It works without scripts, too."""

    name: str
    """Of the action and the last part of its path."""
    label: str
    question: str
    button: str
    command: str
    danger: bool = False
    fields: dict[str, str] = field(default_factory=dict)
    asks: str = ""
    """The label of a text that may be given; its field is `reason`."""


def offers(about: JobSubject, allowed: Set[str]) -> list[JobOffer]:
    """The actions that make sense now; `allowed` has the names of those that the person may do."""
    return [one for one in _all(about) if one.name in allowed]


def _all(about: JobSubject) -> Iterator[JobOffer]:
    job, name = about.raw, name_of(about.raw)
    words = f"-n {shlex.quote(about.namespace)} {shlex.quote(name)}"
    ended, going = is_terminal(job), is_terminating(job)
    if about.live and not ended and not going:
        yield from _interruptions(job, name, words)
    if ended:
        yield JobOffer(
            "retry",
            "Retry",
            "The same spec is submitted as a new job. The Pipeline and images with tags are resolved again.",
            f"Retry {name}",
            f"fournos retry {words}",
        )
    yield JobOffer(
        "keep",
        "Keep",
        "The history never lets this run expire, with its logs, results and artifacts.",
        f"Keep {name}",
        "",
        asks="Reason",
    )
    yield JobOffer("release", "Let expire", "A mark of Keep is taken away.", f"Let {name} expire", "")
    if about.live and not going:
        yield JobOffer(
            "delete",
            "Delete",
            "The job and everything made for it are deleted; what runs is stopped first. "
            "The history keeps what it has recorded.",
            f"Delete {name}",
            f"fournos delete {words}",
            danger=True,
        )
    if not about.live:
        yield JobOffer(
            "forget",
            "Delete from the history",
            "The run is deleted permanently, with its logs, results and artifacts.",
            f"Delete {name} permanently",
            "",
            danger=True,
        )


def _interruptions(job: Obj, name: str, words: str) -> Iterator[JobOffer]:
    """The actions of a job that has not ended."""
    if spec_of(job).get("shutdown") not in ("Stop", "Terminate"):
        yield JobOffer(
            "stop",
            "Stop",
            "Its run is stopped, its finally tasks run, and its quota is given back.",
            f"Stop {name}",
            f"fournos stop {words}",
        )
    if spec_of(job).get("shutdown") != "Terminate":
        yield JobOffer(
            "stop",
            "Stop now",
            "Its run is ended at once; its finally tasks do not run.",
            f"Stop {name} now",
            f"fournos stop --now {words}",
            danger=True,
            fields={"now": "yes"},
        )
    if not spec_of(job).get("shutdown"):
        yield _hold(job, name, words)


def _hold(job: Obj, name: str, words: str) -> JobOffer:
    if spec_of(job).get("suspend"):
        question = "The job is queued again."
        return JobOffer("unhold", "Release", question, f"Release {name}", f"fournos release {words}")
    return JobOffer(
        "hold",
        "Hold",
        "The job leaves the queue until it is released. A run that is under way is stopped first; "
        "its finally tasks run.",
        f"Hold {name}",
        f"fournos hold {words}",
    )
