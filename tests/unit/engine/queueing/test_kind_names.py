"""`Kind.version.group`, and the plurals that servers use."""

from __future__ import annotations

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Resource, usual_plural
from fournos.engine.queueing.workload import BadNameError, cure_of, name_of, parse_name


def test_a_name_is_read_and_written() -> None:
    found = parse_name("Foo.v1beta1.x.example.com")
    assert found == Resource("x.example.com", "v1beta1", "Foo", "foos")
    assert name_of(found) == "Foo.v1beta1.x.example.com"
    assert parse_name("Box.v1.example.com", plural="boxen").plural == "boxen"


def test_a_wrong_name_has_a_reason() -> None:
    with pytest.raises(BadNameError, match="'Pipeline-Run' is not a kind"):
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


SILENT = (
    'Internal error occurred: failed calling webhook "mjob.kb.io": failed to call webhook: Post '
    '"https://kueue-webhook-service.kueue-system.svc:443/mutate-batch-v1-job?timeout=10s": '
    "context deadline exceeded"
)


@pytest.mark.parametrize(
    ("message", "cured"),
    [
        (SILENT, True),
        (SILENT.replace("kueue", "other"), False),
        ("etcdserver: request timed out", False),
    ],
)
def test_a_webhook_of_kueue_that_does_not_answer_has_a_cure(message: str, cured: bool) -> None:
    text = cure_of(message, FOURNOS_JOB)
    wanted = ("FournosJob.v1.fournos.dev", "read fournosjobs", "kubectl apply --server-side -k deploy/kueue")
    assert [word in text for word in wanted] == [cured] * 3 and bool(text) is cured
