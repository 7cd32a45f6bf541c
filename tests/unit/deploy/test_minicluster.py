"""deploy/minicluster: what its files promise to each other and to the operator's tables."""

from __future__ import annotations

from fournos.app.parts import PARTS
from fournos.engine.kube.resource import Resource
from fournos.engine.runtime.process import ProcessSettings
from fournos.systems.miniclusters.observe import watches
from fournos.systems.miniclusters.settings import MiniClusterSettings
from tests.unit.deploy.folder import container_of, files_of, granted, kustomization_of, objects_of

FOLDER = "minicluster"


def test_every_file_is_in_its_kustomization() -> None:
    assert files_of(FOLDER) == set(kustomization_of(FOLDER)["resources"])


def test_what_is_watched_may_be_watched_and_secrets_are_never_changed() -> None:
    rights = granted(objects_of(FOLDER)["ClusterRole", "minicluster-manager-role"])
    for watch in watches():
        resource: Resource = watch.resource
        assert {"list", "watch"} <= rights[resource.group, resource.plural], str(resource)
    assert rights["", "secrets"] == {"get", "list", "watch", "create"}
    assert all("*" not in verbs for verbs in rights.values())


def test_the_deployment_is_configured() -> None:
    found = objects_of(FOLDER)
    classes = MiniClusterSettings, ProcessSettings
    container_of(found, "operator-controller-manager", "miniclusters", *classes)
    assert PARTS["miniclusters"].lease in str(found["Role", "minicluster-leader-election-role"])
    assert ("Namespace", PARTS["miniclusters"].namespace) in found


def test_kueue_may_look_at_the_owner_of_a_job() -> None:
    role = objects_of(FOLDER)["ClusterRole", "kueue-miniclusters"]
    assert {"get", "list", "watch"} <= set(role["rules"][0]["verbs"])
