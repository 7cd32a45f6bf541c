"""`hacks/sync_vault_secrets.py` as people call it: a real API server, a stand-in for Vault."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.commands import run
from tests.fakes.vault import FakeVault
from tests.integration.conftest import Server

SCRIPT = Path(__file__).parents[2] / "hacks" / "sync_vault_secrets.py"


async def sync(vault: FakeVault, kubeconfig: Path, *arguments: str) -> tuple[int, str]:
    environment = {"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig), **vault.environment()}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(SCRIPT),
        *arguments,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def secrets(server: Server, namespace: str) -> dict[str, Any]:
    _, answer = await server("GET", f"/api/v1/namespaces/{namespace}/secrets")
    return {item["metadata"]["name"]: item for item in answer["items"]}


def decoded(secret: Mapping[str, Any]) -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}


async def test_secrets_follow_vault(server: Server, namespace: str, kubeconfig: Path) -> None:
    entries: dict[str, Mapping[str, Any] | None] = {
        "team/secrets/my-creds": {"username": "u", "password": "hush-hush", "secretsync/x": "y"},
        "team/secrets/other": {"token": "hush-hush", "bad key": "hush-hush"},
        "team/secrets/Bad_Name": {"k": "hush-hush"},
        "team/secrets/left-alone": {"fournos_skip_sync": "1", "k": "hush-hush"},
    }
    with FakeVault(entries) as vault:
        code, output = await sync(vault, kubeconfig, "-n", namespace, "--dry-run")
        assert (code, await secrets(server, namespace)) == (1, {})
        assert "password: <9 chars>" in output

        code, applied = await sync(vault, kubeconfig, "-n", namespace)
        assert code == 1, "a bad name and a bad key are errors"
        assert "Bad_Name" in applied and "'bad key'" in applied
        found = await secrets(server, namespace)
        assert sorted(found) == ["vault-my-creds", "vault-other"]
        assert decoded(found["vault-my-creds"]) == {"username": "u", "password": "hush-hush"}
        assert found["vault-my-creds"]["type"] == "Opaque"

        path = f"/api/v1/namespaces/{namespace}/secrets/vault-my-creds"
        await server.patch(path, {"metadata": {"labels": {"team": "perf"}}})
        vault.entries["team/secrets/my-creds"] = {"username": "v"}
        del vault.entries["team/secrets/Bad_Name"], vault.entries["team/secrets/other"]
        code, _ = await sync(vault, kubeconfig, "-n", namespace)
        after = await secrets(server, namespace)
        assert (code, sorted(after)) == (0, ["vault-my-creds", "vault-other"]), "nothing is deleted"
        assert decoded(after["vault-my-creds"]) == {"username": "v"}
        assert after["vault-my-creds"]["metadata"]["uid"] == found["vault-my-creds"]["metadata"]["uid"]
        assert after["vault-my-creds"]["metadata"]["labels"]["team"] == "perf"
    assert "hush-hush" not in output + applied


async def test_the_make_targets(server: Server, namespace: str, kubeconfig: Path) -> None:
    with FakeVault({"team/secrets/a": {"k": "hush-hush"}}) as vault:
        variables = {
            **vault.environment(),
            "KUBECONFIG": str(kubeconfig),
            "FOURNOS_SECRETS_NAMESPACE": namespace,
        }
        shown = await asyncio.to_thread(run, "make", "sync-vault-secrets-dry-run", **variables)
        assert "k: <9 chars>" in shown
        assert await secrets(server, namespace) == {}
        await asyncio.to_thread(run, "make", "sync-vault-secrets", **variables)
        assert decoded((await secrets(server, namespace))["vault-a"]) == {"k": "hush-hush"}


async def test_a_sync_without_the_right_to_write_says_which_is_missing(
    server: Server, namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    reader = await _reader(server, namespace, kubeconfig, tmp_path)
    with FakeVault({"team/secrets/a": {"k": "v"}}) as vault:
        code, output = await sync(vault, reader, "-n", namespace)
        assert code == 1
        assert "the sync needs get, create and patch on secrets" in output


async def _reader(server: Server, namespace: str, kubeconfig: Path, directory: Path) -> Path:
    """A kubeconfig that may get and list Secrets of one namespace, nothing else."""
    core, rbac = (
        f"/api/v1/namespaces/{namespace}",
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}",
    )
    role = {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}]}
    binding = {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}],
    }
    named = {"metadata": {"name": "reader"}}
    for path, body in (
        (f"{core}/serviceaccounts", named),
        (f"{rbac}/roles", {**named, **role}),
        (f"{rbac}/rolebindings", {**named, **binding}),
    ):
        status, answer = await server("POST", path, body)
        assert status == 201, answer
    status, answer = await server("POST", f"{core}/serviceaccounts/reader/token", {"spec": {}})
    assert status == 201, answer
    path = directory / "reader.kubeconfig"
    _with_token(kubeconfig, answer["status"]["token"], path)
    return path


def _with_token(kubeconfig: Path, token: str, path: Path) -> None:
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    path.write_text(yaml.safe_dump(config))
