"""Webhooks and rights: what the API server cannot call, and what the caller may not do."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.insight.doctor.finding import Level
from fournos.insight.doctor.needs import NEEDS, Permission, check_rights
from fournos.insight.doctor.webhooks import check_webhooks
from tests.unit.insight.doctor.healthy import NOW, PLACE, SERVICE, authority, bad, facts, obj, webhooks

LATER = NOW + timedelta(days=90)
FORBIDDEN = ForbiddenError("no", status=403)


def slices(*ready: bool | None) -> dict[Any, Any]:
    endpoints = [{"conditions": {} if one is None else {"ready": one}} for one in ready]
    return {SERVICE: ({**obj("slice"), "endpoints": endpoints},)}


@pytest.mark.parametrize(
    ("configuration", "level", "text"),
    [
        (webhooks(authority(LATER)), Level.OK, "trusted until 2030-04-01"),
        (webhooks(authority(NOW + timedelta(days=3))), Level.WARNING, "ends in 3d"),
        (webhooks(authority(NOW + timedelta(days=6), 7)), Level.OK, "trusted until"),
        (webhooks(authority(NOW + timedelta(hours=12), 7)), Level.WARNING, "ends in 12h"),
        (webhooks(authority(NOW - timedelta(days=3))), Level.FAULT, "ended 3d ago"),
        (webhooks(authority(NOW - timedelta(days=3)), policy="Ignore"), Level.WARNING, "ended 3d ago"),
        (webhooks(""), Level.FAULT, "without a caBundle"),
        (webhooks("%%%"), Level.FAULT, "no certificate that can be read"),
        (webhooks(base64.b64encode(b"x").decode()), Level.FAULT, "no certificate that can be read"),
        (webhooks("", url="https://elsewhere:1/path"), Level.OK, "1 webhook at https://elsewhere:1"),
    ],
)
def test_authorities(configuration: Any, level: Level, text: str) -> None:
    (found,) = check_webhooks(facts(webhooks=(configuration,)), NOW)
    assert (found.level, text in found.text) == (level, True), found


def test_a_bundle_counts_until_the_last_of_its_authorities_ends() -> None:
    both = base64.b64encode(
        base64.b64decode(authority(NOW - timedelta(days=1))) + base64.b64decode(authority(LATER))
    ).decode()
    assert bad(list(check_webhooks(facts(webhooks=(webhooks(both),)), NOW))) == []


NUMBERED_ZERO = b"""-----BEGIN CERTIFICATE-----
MIIBYjCCAQigAwIBAgIBADAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDDAR6ZXJvMCAX
DTI2MTEyMjIzMjU1NloYDzIxMjYxMDI5MjMyNTU2WjAPMQ0wCwYDVQQDDAR6ZXJv
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE2ZvMwtuuzZbpqjWjc8rRmEANoAHi
EzsREFSkSikj73WcRIZSI+56O8TzByEoTstJSKD6ejEzX6liNklDlCtTc6NTMFEw
HQYDVR0OBBYEFFCV1j/LjyBOuoA5ci2UCv9059a7MB8GA1UdIwQYMBaAFFCV1j/L
jyBOuoA5ci2UCv9059a7MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAw
RQIgGPud+pLemeR+/EQAj7AYJGzckdJQ+cuNOaPKNHAbXZQCIQC8ePPqQV5AcU7g
MeOGB4gYpVv4KnxavtvOBPwSCuKb1g==
-----END CERTIFICATE-----
"""
"""An authority as old tools make it; RFC 5280 wants a positive serial number."""


def test_an_authority_that_others_made_is_read_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    bundle = base64.b64encode(NUMBERED_ZERO).decode()
    assert bad(list(check_webhooks(facts(webhooks=(webhooks(bundle),)), NOW))) == []
    assert [str(one.message) for one in recwarn] == []


@pytest.mark.parametrize(
    ("endpoints", "level"),
    [
        (slices(True), Level.OK),
        (slices(None), Level.OK),
        (slices(False, True), Level.OK),
        (slices(False), Level.FAULT),
        (slices(), Level.FAULT),
        ({SERVICE: FORBIDDEN}, Level.OK),
        ({}, Level.OK),
    ],
)
def test_services(endpoints: dict[Any, Any], level: Level) -> None:
    (found,) = check_webhooks(facts(endpoints=endpoints), NOW)
    assert found.level is level
    if level is Level.FAULT:
        assert "bench/fournos-webhooks has no ready endpoint" in found.text


def test_a_webhook_that_is_ignored_when_it_fails_is_a_warning() -> None:
    ignored = facts(webhooks=(webhooks(authority(LATER), policy="Ignore"),), endpoints=slices())
    assert bad(list(check_webhooks(ignored, NOW))) == [("fournos-jobs", Level.WARNING)]


def test_configurations_that_cannot_be_read_are_unknown() -> None:
    (found,) = check_webhooks(facts(webhooks=FORBIDDEN), NOW)
    assert found.level is Level.UNKNOWN


# --- rights ------------------------------------------------------------------------------------------


def rights(**changes: Any) -> dict[Permission, Any]:
    """`changes`: verb and plural, such as create_fournosjobs."""
    found = dict(facts().rights)
    for right in found:
        found[right] = changes.get(f"{right.verb}_{right.resource.plural}", found[right])
    return found


def checked(found: dict[Permission, Any]) -> Any:
    return check_rights(found, namespace=PLACE.namespace, clusters=PLACE.clusters)


def test_all_rights() -> None:
    assert {one.level for one in checked(rights())} == {Level.OK}
    assert len(checked(rights())) == len(NEEDS)


def test_a_right_on_jobs_that_lacks_is_a_fault() -> None:
    (found,) = [one for one in checked(rights(create_fournosjobs=False)) if one.level is not Level.OK]
    assert found.level is Level.FAULT
    assert "you may not create fournosjobs.fournos.dev in namespace bench" in found.text
    assert "submit" in found.text
    assert "create on fournosjobs.fournos.dev" in found.fix


def test_a_right_on_queues_or_clusters_that_lacks_is_a_warning() -> None:
    found = checked(rights(list_workloads=False, patch_fournosclusters=False))
    assert [one.level for one in found if one.level is not Level.OK] == [Level.WARNING, Level.WARNING]
    assert any("in namespace hearth" in one.text for one in found)


def test_a_review_that_fails_is_unknown() -> None:
    found = checked(rights(delete_fournosjobs=FORBIDDEN))
    assert [one.level for one in found if one.level is not Level.OK] == [Level.UNKNOWN]


def test_rights_are_those_of_the_namespaces_that_the_commands_use() -> None:
    found = {(one.resource, one.namespace) for need in NEEDS for one in need.rights("bench", "hearth")}
    assert {(FOURNOS_JOB, "bench"), (WORKLOAD, "bench"), (FOURNOS_CLUSTER, "hearth")} <= found
    cluster_wide = {namespace for resource, namespace in found if not resource.namespaced}
    assert cluster_wide == {""}
