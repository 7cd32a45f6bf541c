"""The bills of materials (CycloneDX) of a release: of the image without Debian, of the chart's images.  Pure.

All data is from requirements-runtime.lock and the chart's values, so that the results are reproducible.  The
hashes of the packages' files are in that lock, which is part of the source distribution.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from dev.release_chart import ChartImage

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
    parsed: list[Pin] = []
    for line in lock.splitlines():
        if pinned := _PIN.match(line):
            parsed.append(Pin(pinned["name"], pinned["version"], ()))
        elif parsed and (via := _VIA.match(line)):
            last = parsed[-1]
            parsed[-1] = Pin(last.name, last.version, (*last.via, via["name"] or via["single"]))
    return parsed


def sbom(lock: str, *, name: str, version: str, made: int, licences: Mapping[str, str]) -> str:
    """Returns JSON, identical for the same arguments.

    `made` is in seconds since 1970; `licences` is package → SPDX expression.
    """
    product = _component(name, version, ComponentType.APPLICATION, licences.get(name, ""))
    bom = _bom(product, lock, made)
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


def images_sbom(images: Sequence[ChartImage], *, name: str, version: str, made: int) -> str:
    """Returns JSON, identical for the same arguments: the images of a chart, with its digests."""
    product = Component(name=name, version=version, bom_ref=f"{name}@{version}")
    bom = _bom(product, repr(images), made)
    components = [_image(image) for image in images]
    for component in components:
        bom.components.add(component)
    bom.register_dependency(product, components)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _bom(product: Component, sources: str, made: int) -> Bom:
    """`sources` is all that the content is made of: with the product it gives the serial number."""
    seed = f"{product.name}@{product.version}\n{sources}"
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, seed))
    bom.metadata.timestamp = datetime.fromtimestamp(made, UTC)
    bom.metadata.component = product
    return bom


def _image(image: ChartImage) -> Component:
    where = {"repository_url": image.repository, **({"tag": image.tag} if image.tag else {})}
    name = image.repository.rpartition("/")[2]
    purl = PackageURL("oci", None, name, image.digest or None, where)
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=image.digest.removeprefix("sha256:"))]
    return Component(
        name=image.repository,
        version=image.tag or None,
        type=ComponentType.CONTAINER,
        purl=purl,
        bom_ref=str(purl),
        hashes=hashes if image.digest else None,
    )


def _component(name: str, version: str, type_: ComponentType, licence: str) -> Component:
    purl = PackageURL("pypi", None, name.lower(), version)
    component = Component(name=name, version=version, type=type_, purl=purl, bom_ref=str(purl))
    if licence:
        component.licenses.add(_FACTORY.make_from_string(licence))
    return component
