"""`kubectl apply -k deploy`: the manifests with real namespaces in place of the README's variables."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.existing import kubectl_program

ROOT = Path(__file__).parents[2]


def rendered() -> list[dict[str, Any]]:
    command = [*kubectl_program(), "kustomize", str(ROOT / "deploy")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert not re.search(r"\$(SECRETS_)?NAMESPACE", done.stdout)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


# The fixture makes sure that there is a kubectl: a cluster brings its own.
@pytest.mark.usefixtures("kubeconfig")
def test_everything_lands_in_its_namespace() -> None:
    found = {(item["kind"], item["metadata"]["name"]): item for item in rendered()}
    cluster_wide = {"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}
    for (kind, name), item in found.items():
        namespace = item["metadata"].get("namespace")
        if kind in cluster_wide:
            assert namespace is None
        else:
            assert namespace == ("psap-secrets" if name.startswith("fournos-secrets-reader") else "fournos")
        assert {subject["namespace"] for subject in item.get("subjects", ())} <= {"fournos"}
        reference = item.get("roleRef")
        assert not reference or (reference["kind"], reference["name"]) in found
    assert ("Deployment", "fournos") in found
    assert ("CustomResourceDefinition", "fournosjobs.fournos.dev") in found
