"""`Kind.version.group`, and the plurals that servers use."""

from __future__ import annotations

import pytest

from fournos.kube.resource import Resource, usual_plural
from fournos.queueing.external import BadNameError, name_of, parse_name


def test_a_name_is_read_and_written() -> None:
    found = parse_name("Foo.v1beta1.x.example.com")
    assert found == Resource("x.example.com", "v1beta1", "Foo", "foos")
    assert name_of(found) == "Foo.v1beta1.x.example.com"
    assert parse_name("Box.v1.example.com", plural="boxen").plural == "boxen"


def test_a_wrong_name_says_why() -> None:
    with pytest.raises(BadNameError, match="'Pipeline-Run' is no kind"):
        parse_name("Pipeline-Run.v1.tekton.dev")


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Foo", "foos"),
        ("Box", "boxes"),
        ("Class", "classes"),
        ("Proxy", "proxies"),
        ("Gateway", "gateways"),
        ("NetworkPolicy", "networkpolicies"),
    ],
)
def test_plurals(kind: str, plural: str) -> None:
    assert usual_plural(kind) == plural
