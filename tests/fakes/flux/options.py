"""A strict reader of command lines: options come first, what is not known ends the program."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass
class Parsed:
    """Option name (the long one, without dashes) -> its values in order; True for those without."""

    options: dict[str, list[str]] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)

    def __contains__(self, name: str) -> bool:
        return name in self.options

    def get(self, name: str, default: str = "") -> str:
        return self.options[name][-1] if name in self.options else default

    def all(self, name: str) -> list[str]:
        return self.options.get(name, [])

    def number(self, command: str, name: str, default: int) -> int:
        if name not in self:
            return default
        if not self.get(name).isdecimal():
            die(command, f"argument --{name}: invalid int value: {self.get(name)!r}", 2)
        return int(self.get(name))


def die(command: str, message: str, code: int = 1) -> None:
    """Ends the program as flux's own commands do."""
    print(f"flux-{command}: {message}", file=sys.stderr, flush=True)
    raise SystemExit(code)


def table(text: str) -> dict[str, tuple[str, bool]]:
    """Returns the options of a command, from a text like `N,nodes= verbose,v watch`.

    `=` marks one that takes a value.  All spellings lead to the longest.
    """
    found: dict[str, tuple[str, bool]] = {}
    for word in text.split():
        valued = word.endswith("=")
        names = word.rstrip("=").split(",")
        name = max(names, key=len)
        found |= dict.fromkeys(names, (name, valued))
    return found


def parse(command: str, words: Sequence[str], known: Mapping[str, tuple[str, bool]]) -> Parsed:
    """Parses options up to the first argument that is none, or up to `--`."""
    parsed = Parsed()
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if name not in known or len(name) == 1:
                die(command, f"unrecognized option '--{name}'", 2)
            full, valued = known[name]
            if equals and not valued:
                die(command, f"option '--{name}' doesn't allow an argument", 2)
            if valued and not equals:
                value = _next(command, f"--{name}", queue)
            parsed.options.setdefault(full, []).append(value)
        elif word.startswith("-") and len(word) > 1:
            _short(command, word[1:], queue, known, parsed)
        else:
            queue.insert(0, word)
            break
    parsed.rest = queue
    return parsed


def _short(
    command: str, letters: str, queue: list[str], known: Mapping[str, tuple[str, bool]], parsed: Parsed
) -> None:
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter not in known:
            die(command, f"invalid option -- '{letter}'", 2)
        full, valued = known[letter]
        if valued:
            value, letters = letters or _next(command, f"-{letter}", queue), ""
            parsed.options.setdefault(full, []).append(value)
        else:
            parsed.options.setdefault(full, []).append("")


def _next(command: str, option: str, queue: list[str]) -> str:
    if not queue:
        die(command, f"option '{option}' requires an argument", 2)
    return queue.pop(0)
