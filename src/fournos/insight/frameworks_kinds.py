"""Names of kinds: those that are queued by configuration, and any other by its full name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fournos.engine.kube.resource import Resource
from fournos.engine.queueing.workload import BadNameError, parse_name
from fournos.insight.errors import FournosError
from fournos.systems.frameworks.kinds import FinishRule, Framework, TableError, load


def kinds_of(file: str) -> tuple[Framework, ...]:
    """Returns the configured kinds, with those of `file`.  Raises FournosError if the file is invalid."""
    try:
        return load(file)
    except TableError as error:
        raise FournosError(str(error), fix="correct the file") from None


def words_of(framework: Framework) -> set[str]:
    """The accepted names of the kind, in lower case."""
    one = framework.resource
    words = {one.kind, one.plural, f"{one.plural}.{one.group}", f"{one.kind}.{one.group}", framework.name}
    return {word.lower() for word in words}


def resource_named(text: str, kinds: Sequence[Framework]) -> tuple[Resource, Framework | None]:
    """Returns the kind that `text` names: a configured one by any of its names, else Kind.version.group.

    Raises FournosError for an unknown or ambiguous name.
    """
    named = [one for one in kinds if text.lower() in words_of(one)]
    if len(named) == 1:
        return named[0].resource, named[0]
    if named:
        raise FournosError(f"several kinds are named {text}", fix=f"write one of {_known(named)}")
    try:
        return parse_name(text), None
    except BadNameError as error:
        raise FournosError(str(error), fix=f"known: {_known(kinds)}; others by Kind.version.group") from None


def _known(kinds: Iterable[Framework]) -> str:
    return ", ".join(one.name for one in kinds)


def row_of(framework: Framework) -> tuple[str, str, str, str]:
    """The name of the kind, how its objects are held, what they ask for, and what ends them."""
    return framework.name, _held(framework), _asked(framework), _ended(framework)


def _held(one: Framework) -> str:
    return f"{one.hold.path}={_value(one.hold.held)}"


def _asked(framework: Framework) -> str:
    if framework.pod_sets:
        return ", ".join(rule.template for rule in framework.pod_sets)
    return ", ".join(f"{name}={amount}" for name, amount in framework.default_requests.items())


def _ended(framework: Framework) -> str:
    def words(rule: FinishRule) -> str:
        return f"condition {rule.condition}" if rule.condition else str(rule.path)

    return ", ".join(map(words, framework.finished))


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
