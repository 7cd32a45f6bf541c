"""The bill of materials (CycloneDX) of a release, for the content of the image without Debian.  Pure.

All data is from requirements-runtime.lock, so that the result is reproducible.  The hashes of the files are
in that lock, which is part of the source distribution.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

_FACTORY = LicenseFactory()
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)")
_VIA = re.compile(r"^    #   (?!-c )(?P<name>[A-Za-z0-9._-]+)|^    # via (?P<single>[A-Za-z0-9._-]+)")


@dataclass(frozen=True)
class Pin:
    name: str
    version: str
    via: tuple[str, ...]
    """The packages that require it."""


def pins(lock: str) -> list[Pin]:
    """Parses a lock with a comment `via` under each package, as hack/lock.sh writes it."""
    found: list[Pin] = []
    for line in lock.splitlines():
        if pinned := _PIN.match(line):
            found.append(Pin(pinned["name"], pinned["version"], ()))
        elif found and (via := _VIA.match(line)):
            last = found[-1]
            found[-1] = Pin(last.name, last.version, (*last.via, via["name"] or via["single"]))
    return found


def sbom(lock: str, *, name: str, version: str, made: int, licences: Mapping[str, str]) -> str:
    """Returns JSON, identical for the same arguments.

    `made` is in seconds since 1970; `licences` is package → SPDX expression.
    """
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{name}@{version}\n{lock}"))
    bom.metadata.timestamp = datetime.fromtimestamp(made, UTC)
    product = _component(name, version, ComponentType.APPLICATION, licences.get(name, ""))
    bom.metadata.component = product
    locked = pins(lock)
    components = {
        pin.name: _component(pin.name, pin.version, ComponentType.LIBRARY, licences.get(pin.name, ""))
        for pin in locked
    }
    for component in components.values():
        bom.components.add(component)
    whole = {name: product, **components}
    for parent, component in whole.items():
        needed = [components[pin.name] for pin in locked if parent in pin.via]
        bom.register_dependency(component, needed)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _component(name: str, version: str, type_: ComponentType, licence: str) -> Component:
    purl = PackageURL("pypi", None, name.lower(), version)
    component = Component(name=name, version=version, type=type_, purl=purl, bom_ref=str(purl))
    if licence:
        component.licenses.add(_FACTORY.make_from_string(licence))
    return component
