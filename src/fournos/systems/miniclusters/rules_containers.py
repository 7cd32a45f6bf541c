"""Validation rules of a MiniCluster's containers and of the containers of its services pod."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from fournos.api.minicluster import DEFAULT_HEADLESS_NAME
from fournos.api.minicluster_flux import DEFAULT_VIEW_NAME
from fournos.engine.api.rules import Json, Rule, full_match

_IS_SET: Final = "(has(c.{0}) && c.{0})"
_TEXT: Final = "(has(c.{0}) && c.{0} != '')"
_RUNS: Final = (
    f"(size(self.containers) == 1 || {_IS_SET.format('runFlux')} || "
    "(!has(c.runFlux) && !self.containers.exists(d, has(d.runFlux) && d.runFlux)))"
)
"""True if container c runs Flux: it sets runFlux, or it does not and no other container sets it."""
_NAME: Final = "([a-z0-9]([-a-z0-9]*[a-z0-9])?)?"
"""An empty name matches, because another rule refuses it."""
_NAME_MAX: Final = 63
_FITS: Final = f"(c.name.size() <= {_NAME_MAX} && c.name.matches('^{_NAME}$'))"


def _fits(name: str) -> bool:
    return len(name) <= _NAME_MAX and full_match(_NAME, name)


def _containers(spec: Json) -> list[Json]:
    return list(spec.get("containers") or ())


def _services(spec: Json) -> list[Json]:
    return list(spec.get("services") or ())


def _runs(spec: Json, container: Json) -> bool:
    if len(_containers(spec)) == 1 or container.get("runFlux"):
        return True
    return container.get("runFlux") is None and not any(c.get("runFlux") for c in _containers(spec))


def _volumes(spec: Json) -> Iterator[Json]:
    for container in (*_containers(spec), *_services(spec)):
        yield from (container.get("volumes") or {}).values()


def _volume_rule(id_: str, message: str, cel: str, holds: Callable[[Json], bool]) -> Rule:
    """Returns a rule for every volume. In `cel` the volume is called v."""
    one = re.sub(r"\bv\b", "c.volumes[k]", cel)
    each = f"(c, !has(c.volumes) || c.volumes.all(k, {one}))"
    return Rule(
        id=id_,
        field="spec.containers",
        message=message,
        cel=f"self.containers.all{each} && (!has(self.services) || self.services.all{each})",
        holds=lambda new, _: all(holds(volume) for volume in _volumes(new)),
    )


def _has(*names: str) -> str:
    return " || ".join(f"(has(v.{name}) && v.{name} != '')" for name in names)


_EMPTY: Final = "(has(v.emptyDir) && v.emptyDir)"
_PLACES: Final = ("secretName", "configMapName", "path")


def _mounted_rule(id_: str, source: str) -> Rule:
    """Returns the rule that a volume of this source has a path."""
    return _volume_rule(
        id_,
        f"a volume with a {source} is missing a path: write where it is mounted",
        f"!({_has(source)}) || {_has(*_PLACES)} || {_EMPTY}",
        lambda v: not v.get(source) or any(v.get(name) for name in (*_PLACES, "emptyDir")),
    )


_OTHERS: Final = ("secretName", "configMapName", "csiDriver")
_SOURCES: Final = (*_OTHERS, "hostPath", "claimName")
_HOOKS: Final = ("pre", "brokerPre", "workerPre", "preBroker", "preWorker")


def _spelt_once(container: Json) -> bool:
    commands = container.get("commands") or {}
    pairs = (
        (container, "fluxUser", "fluxuser"),
        (commands, "workerPre", "preWorker"),
        (commands, "brokerPre", "preBroker"),
    )
    return not any(one in where and other in where for where, one, other in pairs)


def _named_once(containers: str) -> str:
    """Returns the CEL expression for: no two of these containers have the same name."""
    named = _TEXT.format("name")
    return f"{containers}.all(c, !{named} || {containers}.exists_one(d, has(d.name) && d.name == c.name))"


def _unique(containers: list[Json]) -> bool:
    names = [container.get("name") for container in containers if container.get("name")]
    return len(names) == len(set(names))


_VIEW_NAME: Final = (
    "(has(self.spec.flux) && has(self.spec.flux.container) && has(self.spec.flux.container.name) && "
    f"self.spec.flux.container.name != '' ? self.spec.flux.container.name : '{DEFAULT_VIEW_NAME}')"
)
_SERVICE_NAME: Final = (
    "(has(self.spec.network) && has(self.spec.network.headlessName) && "
    f"self.spec.network.headlessName != '' ? self.spec.network.headlessName : '{DEFAULT_HEADLESS_NAME}')"
)
_FREE_NAMES: Final = (
    f"!has(self.spec) || ({_VIEW_NAME} != self.metadata.name && "
    f"!({_VIEW_NAME} in ['flux-curve', 'flux-munge', 'flux-operator-home']) && "
    f"{_VIEW_NAME} != self.metadata.name + '-entrypoint' && "
    f"self.spec.containers.all(c, {_RUNS.replace('self.', 'self.spec.')} || !has(c.name) || "
    f"(c.name != self.metadata.name && c.name != {_VIEW_NAME} && "
    f"(!has(c.ports) || size(c.ports) == 0 || c.name != {_SERVICE_NAME}))))"
)


def _free_names(new: Json) -> bool:
    """True if the containers of a pod, its volumes and the Services have different names."""
    spec = new.get("spec") or {}
    own = (new.get("metadata") or {}).get("name") or ""
    flux = (spec.get("flux") or {}).get("container") or {}
    view = flux.get("name") or DEFAULT_VIEW_NAME
    service = (spec.get("network") or {}).get("headlessName") or DEFAULT_HEADLESS_NAME
    beside = [c for c in _containers(spec) if not _runs(spec, c)]
    return view not in (
        own,
        f"{own}-entrypoint",
        "flux-curve",
        "flux-munge",
        "flux-operator-home",
    ) and not any(
        c.get("name") in (own, view) or (c.get("ports") and c.get("name") == service) for c in beside
    )


CONTAINERS: Final[tuple[Rule, ...]] = (
    Rule(
        id="one-runner",
        field="spec.containers",
        message="Flux runs in exactly one container: write runFlux: true there, or runFlux: false in all "
        "others",
        cel=f"self.containers.filter(c, {_RUNS}).size() == 1",
        holds=lambda new, _: sum(_runs(new, c) for c in _containers(new)) == 1,
    ),
    Rule(
        id="launcher-batch",
        field="spec.containers",
        message="a container is indicated for batch and launcher, choose one",
        cel=f"self.containers.all(c, !({_IS_SET.format('launcher')} && {_IS_SET.format('batch')}))",
        holds=lambda new, _: not any(c.get("launcher") and c.get("batch") for c in _containers(new)),
    ),
    Rule(
        id="launcher-batch-spec",
        field="spec.launcher",
        message="the container that runs Flux says batch: remove that, or spec.launcher",
        cel="!(has(self.launcher) && self.launcher) || "
        f"self.containers.all(c, !({_RUNS} && {_IS_SET.format('batch')}))",
        holds=lambda new, _: (
            not new.get("launcher") or not any(_runs(new, c) and c.get("batch") for c in _containers(new))
        ),
    ),
    Rule(
        id="container-name",
        field="spec.containers",
        reason="FieldValueRequired",
        message="a container is missing a name: all but the one that runs Flux need one",
        cel=f"self.containers.all(c, {_RUNS} || {_TEXT.format('name')})",
        holds=lambda new, _: all(_runs(new, c) or c.get("name") for c in _containers(new)),
    ),
    Rule(
        id="container-name-text",
        field="spec.containers",
        message="the name of a container is at most 63 lower-case letters, digits and -",
        cel=f"self.containers.all(c, {_RUNS} || !has(c.name) || {_FITS}) && "
        f"(!has(self.services) || self.services.all(c, !has(c.name) || {_FITS}))",
        holds=lambda new, _: all(
            _fits(c["name"])
            for c in (*(c for c in _containers(new) if not _runs(new, c)), *_services(new))
            if c.get("name") is not None
        ),
    ),
    Rule(
        id="container-names",
        field="spec.containers",
        message="two containers have the same name: choose another for one of them",
        cel=_named_once("self.containers"),
        holds=lambda new, _: _unique(_containers(new)),
    ),
    Rule(
        id="service-names",
        field="spec.services",
        message="two containers of services have the same name: choose another for one of them",
        cel="!has(self.services) || " + _named_once("self.services"),
        holds=lambda new, _: _unique(_services(new)),
    ),
    Rule(
        id="container-image",
        when="create",
        field="spec.containers",
        reason="FieldValueRequired",
        message="a container is missing an image: write one",
        cel=f"self.containers.all(c, {_TEXT.format('image')}) && "
        f"(!has(self.services) || self.services.all(c, {_TEXT.format('image')}))",
        holds=lambda new, _: all(c.get("image") for c in (*_containers(new), *_services(new))),
    ),
    Rule(
        id="sidecar-service-name",
        field="spec.containers",
        message="a sidecar with ports gives its name to a Service: write a letter first",
        cel=f"self.containers.all(c, {_RUNS} || !has(c.ports) || size(c.ports) == 0 || "
        "!has(c.name) || !c.name.matches('^[0-9]'))",
        holds=lambda new, _: (
            not any(
                c.get("ports") and not _runs(new, c) and (c.get("name") or "")[:1].isdigit()
                for c in _containers(new)
            )
        ),
    ),
    Rule(
        id="reserved-names",
        at="",
        when="create",
        field="spec.containers",
        message="the name of a container is taken: the container that runs Flux has the MiniCluster's name, "
        "the one that brings it that of flux.container.name (flux-view), and the Service of a sidecar with "
        "ports may not have that of network.headlessName (flux-service): choose another name",
        cel=_FREE_NAMES,
        holds=lambda new, _: _free_names(new),
    ),
    Rule(
        id="script-command",
        field="spec.containers",
        message="a container has both a script and command provided, choose one",
        cel=f"self.containers.all(c, !({_RUNS} && {_TEXT.format('command')} && has(c.commands) && "
        "has(c.commands.script) && c.commands.script != ''))",
        holds=lambda new, _: (
            not any(
                _runs(new, c) and c.get("command") and (c.get("commands") or {}).get("script")
                for c in _containers(new)
            )
        ),
    ),
    Rule(
        id="service-name",
        field="spec.services",
        reason="FieldValueRequired",
        message="Service containers always require a name: write one",
        cel=f"!has(self.services) || self.services.all(c, {_TEXT.format('name')})",
        holds=lambda new, _: all(c.get("name") for c in _services(new)),
    ),
    Rule(
        id="service-commands",
        field="spec.services",
        reason="FieldValueForbidden",
        message="Services do not support Commands: remove pre, brokerPre and workerPre, and write command",
        cel="!has(self.services) || self.services.all(c, !has(c.commands) || !("
        + " || ".join(f"(has(c.commands.{name}) && c.commands.{name} != '')" for name in _HOOKS)
        + "))",
        holds=lambda new, _: (
            not any((c.get("commands") or {}).get(name) for c in _services(new) for name in _HOOKS)
        ),
    ),
    Rule(
        id="container-spelling",
        field="spec.containers",
        message="fluxUser and fluxuser are one field, workerPre and preWorker, brokerPre and preBroker too: "
        "keep one of each",
        cel="self.containers.all(c, !(has(c.fluxUser) && has(c.fluxuser)) && (!has(c.commands) || "
        "(!(has(c.commands.workerPre) && has(c.commands.preWorker)) && "
        "!(has(c.commands.brokerPre) && has(c.commands.preBroker)))))",
        holds=lambda new, _: all(_spelt_once(c) for c in _containers(new)),
    ),
    _mounted_rule("volume-claim-path", "claimName"),
    _mounted_rule("volume-host-path", "hostPath"),
    _volume_rule(
        "volume-path",
        "a volume of a Secret, ConfigMap or CSI driver is missing a path: write where it is mounted",
        f"!({_has(*_OTHERS)}) || {_has('path')}",
        lambda v: not any(v.get(name) for name in _OTHERS) or bool(v.get("path")),
    ),
    _volume_rule(
        "volume-source",
        "a volume does not say what it is: write claimName, hostPath, configMapName, secretName, csiDriver, "
        "emptyDir: true, or a path alone for an empty directory there",
        f"{_has(*_SOURCES, 'path')} || {_EMPTY}",
        lambda v: any(v.get(name) for name in (*_SOURCES, "path", "emptyDir")),
    ),
)
