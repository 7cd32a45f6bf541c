"""What the bare machine takes over from this one: how its package clients fetch, and nothing else."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.bare import clients


def test_settings_of_package_clients_are_taken_and_no_others() -> None:
    taken = {
        "PIP_INDEX_URL": "https://mirror",
        "PIP_CERT": "/certs/ca.crt",
        "GOPROXY": "https://proxy",
        "https_proxy": "http://proxy",
        "NO_PROXY": "localhost",
        "SSL_CERT_FILE": "/certs/ca.crt",
        "REQUESTS_CA_BUNDLE": "/certs/ca.crt",
    }
    others = {
        "PATH": "/bin",
        "GOFLAGS": "-v",
        "KUBECONFIG": "/kubeconfig",
        "FOURNOS_CACHE": "/cache",
        "TOKEN": "t",
    }
    assert clients.variables({**taken, **others}) == taken


def test_files_that_settings_name_are_taken_each_once(tmp_path: Path) -> None:
    wheels, certificates = tmp_path / "wheels", tmp_path / "certificates"
    (certificates / "more").mkdir(parents=True)
    wheels.mkdir()
    (tmp_path / ".config/pip").mkdir(parents=True)
    environment = {
        "PIP_FIND_LINKS": f"{wheels} {tmp_path}/absent",
        "SSL_CERT_DIR": f"{certificates}:{certificates}/more",
        "PIP_INDEX_URL": "https://mirror",
    }
    found = [path for path in clients.files(environment, tmp_path) if path.is_relative_to(tmp_path)]
    assert found == sorted([wheels, certificates, tmp_path / ".config/pip"])
