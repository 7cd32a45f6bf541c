"""Every regular expression of the package is linear in the text that it is applied to.

The texts are pieces that the pattern itself contains, joined by separators.  CPU time counts, not the clock.
A linear pattern takes a hundredth of the limits, a quadratic one ten times as much.
"""

from __future__ import annotations

import ast
import importlib
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import fournos
from fournos.api.slots import blames_others, unavailable_in
from fournos.engine.api.values import escaped, escaped_line, parse_duration, parse_quantity, parse_ttl
from fournos.engine.runtime.logs import redact
from fournos.history.logs.stored import failing_line
from fournos.history.store.rows import message, pack
from fournos.web.pages.logs import plain

_SOURCE: Final = Path(fournos.__file__).parent
_METHODS: Final = frozenset({"search", "match", "fullmatch", "sub", "split", "findall", "finditer"})
_SEPARATORS: Final = ("", " ", "-", ".", "\n", ":", "=", '"')
_CHARACTERS: Final = ("a", "0", " ", "\\", "[")
_SHORT, _LONG, _LONGEST = 4096, 2**16, 2**20
_SUSPICIOUS: Final = 0.002
_LIMIT: Final = 1.5
"""Seconds of CPU for the longest text."""


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(_SOURCE.rglob("*.py")):
        if "re." in (text := path.read_text()) and "migrations" not in path.parts:
            yield str(path.relative_to(_SOURCE)), ast.parse(text)


def _is_re_call(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
    )


def _uses() -> dict[tuple[str, str], set[str]]:
    """Module ("" for a public name) and name of a constant → methods that are called on it."""
    uses: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in _SOURCE.rglob("*.py"):
        file = str(path.relative_to(_SOURCE))
        for name, method in re.findall(r"\b(_?[A-Z][A-Z_]*)\.(\w+)\b", path.read_text()):
            if method in _METHODS:
                uses[file if name.startswith("_") else "", name].add(method)
    return uses


def _in(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _in(item)
    elif isinstance(value, dict):
        yield from _in(list(value.values()))


def patterns() -> dict[str, tuple[re.Pattern[Any], frozenset[str]]]:
    """Module and name or line → the pattern and how it is applied."""
    uses = _uses()
    found: dict[str, tuple[re.Pattern[Any], frozenset[str]]] = {}
    for file, tree in _modules():
        module = importlib.import_module(f"fournos.{file.removesuffix('.py').replace('/', '.')}")
        for name, value in vars(module).items():
            for number, pattern in enumerate(_in(value)):
                used = uses.get((file if name.startswith("_") else "", name), ())
                methods = frozenset(used) or frozenset({"search"})
                found[f"{file}:{name}[{number}]"] = pattern, methods
        for node in ast.walk(tree):
            if _is_re_call(node) and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                argument = node.args[0]
                if isinstance(argument, ast.Constant) and node.func.attr in _METHODS:
                    pattern = re.compile(argument.value)
                    found[f"{file}:{node.lineno}"] = pattern, frozenset({node.func.attr})
    return found


def _pieces(pattern: re.Pattern[Any]) -> list[str]:
    """Literals of the pattern that a match begins with or goes through."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode()
    source = re.sub(
        r"\\x1b", "\x1b", re.sub(r"\\([^A-Za-z0-9])", r"\1", re.sub(r"\\[a-wyzA-Z]", " ", source))
    )
    literals = re.findall(r"[^\\()\[\]{}|?*+^$]{2,24}", source)
    return list(dict.fromkeys([*literals[:12], *re.findall(r"\[([^\]\\^])", source)[:3]]))


def _texts(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str]]:
    """Heads and units, of which a text is made."""
    pieces = _pieces(pattern)
    for head in ("", *pieces[:4]):
        for piece in (*pieces, *_CHARACTERS):
            for separator in _SEPARATORS:
                yield head, piece + separator


def _text(head: str, unit: str, size: int) -> str:
    return head + (unit * (size // len(unit))) + "\x01"


def _seconds(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def _applied(pattern: re.Pattern[Any], method: str, text: str) -> Callable[[], object]:
    given: Any = text if isinstance(pattern.pattern, str) else text.encode()
    if method == "sub":
        return lambda: pattern.sub("" if isinstance(given, str) else b"", given)
    if method == "finditer":
        return lambda: list(pattern.finditer(given))
    return lambda: getattr(pattern, method)(given)


def _is_slow(pattern: re.Pattern[Any], method: str, head: str, unit: str) -> bool:
    """Longer texts only where a short one takes unusually long: nearly none does."""

    def seconds(size: int) -> float:
        return _seconds(_applied(pattern, method, _text(head, unit, size)))

    return seconds(_SHORT) > _SUSPICIOUS and (seconds(_LONG) > _LIMIT / 2 or seconds(_LONGEST) > _LIMIT)


def _slow(pattern: re.Pattern[Any], methods: Iterable[str]) -> Iterator[str]:
    for method in methods:
        for head, unit in _texts(pattern):
            if _is_slow(pattern, method, head, unit):
                yield f"{method} of {head!r} and {unit!r}, again and again"
                return


def test_every_pattern_is_linear() -> None:
    found = patterns()
    assert len(found) > 80
    slow = {name: list(_slow(pattern, methods)) for name, (pattern, methods) in found.items()}
    assert {name: shapes for name, shapes in slow.items() if shapes} == {}


def test_patterns_are_constants_of_their_modules() -> None:
    inside = {
        file
        for file, tree in _modules()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if _is_re_call(node) and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr == "compile"
    }
    assert inside == set()


def _tolerant(call: Callable[[str], object]) -> Callable[[str], object]:
    def tolerant(text: str) -> object:
        try:
            return call(text)
        except ValueError:
            return None

    return tolerant


APPLIED: Final[dict[str, Callable[[str], object]]] = {
    "redact": redact,
    "first failure": lambda text: failing_line([text]),
    "stored message": message,
    "stored document": lambda text: pack({"token": text}),
    "line of the page": plain,
    "escaped": escaped,
    "escaped line": escaped_line,
    "clusters that take no jobs": unavailable_in,
    "reasons of other clusters": blames_others,
    "quantity": _tolerant(parse_quantity),
    "duration": _tolerant(parse_duration),
    "ttl": _tolerant(parse_ttl),
}
"""What texts of others go through."""
_SHAPES: Final = (
    ("", "eyJ-"),
    ("", "eyJaaaaaaaa."),
    ("", "eyJ-aaaaaaaa-."),
    ("-----BEGIN ", "CERTIFICATE"),
    ("", "-----BEGIN CERTIFICATE"),
    ("", "-----BEGIN CERTIFICATE-----"),
    ("", 'password="'),
    ("token=", " "),
    ("", "://a:"),
    ("", "\x1b]"),
    ("", "Error.: "),
    ("1", "0"),
)


@pytest.mark.parametrize("name", APPLIED)
def test_a_megabyte_takes_linear_time(name: str) -> None:
    for head, unit in _SHAPES:
        text = _text(head, unit, _LONG)
        short = _seconds(lambda: APPLIED[name](text))  # noqa: B023 - called at once
        assert short < _LIMIT, f"64 KiB of {unit!r}: {short:.1f} s"
        if short > _SUSPICIOUS:
            text = _text(head, unit, _LONGEST)
            long = _seconds(lambda: APPLIED[name](text))  # noqa: B023
            assert long < _LIMIT, f"1 MiB of {unit!r}: {long:.1f} s"
