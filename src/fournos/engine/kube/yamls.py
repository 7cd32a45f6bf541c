"""Parses, and writes, YAML with content of others: by libyaml, of bounded depth, without aliases.

PyYAML's parser in Python takes 10 s of CPU for a megabyte.  libyaml holds the interpreter's lock, and for
nested lists takes quadratic time and the whole stack: callers bound the size, and a first pass over the
events bounds the depth before the document is composed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import yaml

DEEPEST: Final = 32
"""Levels of lists and maps."""
_LONGEST_NUMBER: Final = 400
"""Characters.  The digits of a longer number, such as 1:59:59:…, take quadratic time."""
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_MALFORMED: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What PyYAML raises, beside YAMLError, of values that do not fit their tags, such as `!!bool x`."""
_PROBLEM: Final = 100


class YamlError(ValueError):
    """A text that is not accepted.  `brief` is the message without anything that may quote the text."""

    def __init__(self, brief: str, detail: str = "") -> None:
        super().__init__(f"{brief}: {detail}" if detail else brief)
        self.brief = brief


def _loader() -> type[Any] | None:
    """None where PyYAML has no libyaml."""
    base: type[Any] | None = getattr(yaml, "CSafeLoader", None)
    if base is None:
        return None
    loader: type[Any] = type("_Loader", (base,), {})
    for tag in _NUMBERS:
        loader.add_constructor(tag, _bounded(base.yaml_constructors[tag]))
    return loader


def _bounded(construct: Any) -> Any:
    def bounded(loader: Any, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode) and len(node.value) > _LONGEST_NUMBER:
            raise ValueError("a number is too long")
        return construct(loader, node)

    return bounded


_LOADER: Final = _loader()
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def load_all(text: str, *, deepest: int = DEEPEST, texts: bool = False) -> list[Any]:
    """Returns the documents of the text; with `texts` all its values are texts, as they are written.

    Raises YamlError; its text has no subject: "is not YAML: line 1, …".
    """
    if _LOADER is None:
        raise YamlError("is YAML, which PyYAML without libyaml does not read here; write JSON")
    try:
        _check_shape(yaml.parse(text, _LOADER), deepest)
        return list(yaml.load_all(text, yaml.CBaseLoader if texts else _LOADER))  # both are safe
    except yaml.YAMLError as error:
        raise YamlError("is not YAML", yaml_problem(error)) from None
    except YamlError:
        raise
    except _MALFORMED as error:
        raise YamlError("is not YAML", f"a value does not fit its type ({type(error).__name__})") from None


def _check_shape(events: Iterator[Any], deepest: int) -> None:
    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise YamlError("has aliases (*name), which are not accepted; write each value out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > deepest:
            raise YamlError(f"is nested more than {deepest} levels deep")


def dump(value: Any, *, width: int, flow: bool = False) -> str:
    """Returns the value as YAML, written by libyaml where PyYAML has it; its fields stay in their order."""
    return str(
        yaml.dump(
            value,
            Dumper=_DUMPER,
            sort_keys=False,
            allow_unicode=True,
            width=width,
            default_flow_style=flow,
        )
    )


def yaml_problem(error: yaml.YAMLError) -> str:
    """Returns where and what the problem is, on one line, without the text around it."""
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or error).strip()[:_PROBLEM]
    problem = "".join(character if character.isprintable() else " " for character in problem)
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else problem
