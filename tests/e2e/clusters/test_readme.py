"""The commands that the Hearth README publishes (readme.yaml), run as they are written and in its order.

Hearth is a pod of this checkout's image, under the rights and with the settings of `deploy/`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.clusters.conftest import Person

NAME = "oven-nvidia"
FOLLOWED = 3
"""Seconds for which a command that does not end is watched."""
BLOCKS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("readme.yaml").read_text())


def test_every_command_is_run_or_exempt_for_a_reason() -> None:
    for block in BLOCKS:
        assert ("run" in block) != (bool(block.get("exempt")) and "text" in block), block["block"]
    assert len({block["block"] for block in BLOCKS}) == len(BLOCKS)


def run(person: Person, block: Mapping[str, Any]) -> str:
    script = block["run"].replace("<cluster-name>", NAME)
    script = script.replace("secret <name>", f"secret kubeconfig-{NAME}").replace("<name>", NAME)
    cwd = person.directory if f"./{NAME}-kubeconfig" in script else None
    if block.get("follows"):
        # 124: it had to be ended.
        return person(f"timeout {FOLLOWED} bash -c {shlex.quote(script)} || test $? = 124")
    shown = person(script, fails="fails" in block, **({"cwd": cwd} if cwd else {}))
    assert block.get("fails", "") in shown
    return shown


def test_the_readme(person: Person) -> None:
    by_name = {block["block"]: block for block in BLOCKS}
    shown: dict[str, str] = {}
    at_first = person.quotas()

    def again(name: str, holds: Callable[[str], Any]) -> None:
        """As a person does who does not see it yet."""

        def look() -> bool:
            shown[name] = run(person, by_name[name])
            return bool(holds(shown[name]))

        person.hub.until(look, lambda: f"{name} shows\n{shown[name]}")

    def rolled_out() -> None:
        person("oc rollout status deployment/hearth -n hearth --timeout=180s", limit=200)
        pods = "oc get pods -n hearth -l app=hearth --no-headers"
        person.hub.until(lambda: len(person(pods).splitlines()) == 1, lambda: person(pods))

    before: dict[str, Callable[[], Any]] = {
        "blocked": lambda: (run(person, by_name["lock"]), again("locked", lambda text: " true " in text)),
    }
    row = rf"{NAME} +"
    sees: dict[str, Callable[[str], Any]] = {
        "verify": lambda text: "Running" in text and "\nyes\n" in text,
        "found": lambda text: re.search(row + r"2x NVIDIA-L40S +Valid +false ", text),
        "summary": lambda text: text == "2x NVIDIA-L40S",
        "gpus": lambda text: json.loads(text)[0]["shortName"] == "l40s",
        "flavor": lambda text: NAME in text,
        "quota": lambda text: NAME in text and "fournos/gpu-l40s" in text,
        "label-is-there": lambda text: "cluster-kubeconfig=true" in text,
        "key-is-there": lambda text: list(json.loads(text)) == ["kubeconfig"],
        "errors": lambda text: text == "",
        "locked": lambda text: re.search(row + r"your-name +2x NVIDIA-L40S +Valid +true ", text),
        "sentinel": lambda text: re.search(rf"cluster-lock-{NAME} +your-name .*Admitted.* {NAME} ", text),
        "sentinel-workload": lambda text: re.search(
            rf"cluster-lock-{NAME} +fournos-queue +fournos-queue +True ", text
        ),
        "expires": lambda text: re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", text),
        "unlocked": lambda text: text.startswith("false") and "cluster-lock" not in text,
        "stays-pending": lambda text: re.search(r"test-blocked-job +fournos-queue +[0-9]+m?s", text),
        "says-why": lambda text: (
            f"insufficient unused quota for fournos/cluster-slot in flavor {NAME}" in text
        ),
        "admitted": lambda text: re.search(r"test-blocked-job +fournos-queue +fournos-queue +True ", text),
        "logs": lambda text: NAME in text,
    }
    after = {"branch-image": rolled_out, "revert": rolled_out}
    for block in BLOCKS:
        name = block["block"]
        if "exempt" in block:
            continue
        before.get(name, lambda: None)()
        if name in sees:
            again(name, sees[name])
        else:
            shown[name] = run(person, block)
        after.get(name, lambda: None)()

    header = shown["found"].splitlines()[0].split()
    assert header == ["NAME", "OWNER", "GPUS", "KUBECONFIG", "LOCKED", "AGE"]
    assert person.quotas() == at_first, "nothing is left"
    log = person("oc logs -n hearth -l app=hearth --tail=-1")
    assert "forbidden" not in log.lower(), log
    assert "client-key-data" not in log
