"""The signatures of a release: made by cosign, checked by it and by another library, refused when wrong."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dev import release
from dev.go_tools import COSIGN, ensure
from dev.image import ROOT
from dev.release_signatures import PUBLIC_KEY, SUFFIX, Signer
from devcluster import DevclusterError
from devcluster.errors import CommandFailedError
from devcluster.progress import Progress

# cosign takes minutes to build, and only a change of the release needs it.
pytestmark = pytest.mark.setup
CHART, IMAGE = "fournos-1.tgz", "fournos-1-image-debian.tar.gz"
SIGNED = (CHART, IMAGE, release.SUMS)


@pytest.fixture(scope="module")
def cosign() -> Path:
    return ensure(COSIGN, Progress())


@pytest.fixture(autouse=True, scope="module")
def network(cosign: Path) -> Iterator[socket.socket]:
    """A proxy that never answers: a connection to it is a request to the services of Sigstore.

    cosign is there before it: its build fetches modules.
    """
    with pytest.MonkeyPatch.context() as patch, socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.setblocking(False)
        patch.setenv("COSIGN_PASSWORD", "of the test")
        patch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        yield proxy


def key_pair(cosign: Path, folder: Path) -> Path:
    """Returns the private key; the public one is beside it."""
    folder.mkdir()
    subprocess.run([cosign, "generate-key-pair"], cwd=folder, check=True, capture_output=True, timeout=60)
    return folder / "cosign.key"


@pytest.fixture(scope="module")
def key(cosign: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return key_pair(cosign, tmp_path_factory.mktemp("keys") / "ours")


@pytest.fixture(scope="module")
def sealed(cosign: Path, key: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    for name in (CHART, IMAGE, "install.yaml"):
        (folder / name).write_text(f"content of {name}")
    release.seal(folder, Signer.by_key(cosign, str(key)))
    return folder


@pytest.fixture
def folder(sealed: Path, tmp_path: Path) -> Path:
    """A copy of the release, to be changed."""
    return Path(shutil.copytree(sealed, tmp_path / "release"))


def documented() -> str:
    """Returns the command of docs/install.md that checks the signature by key."""
    page = (ROOT / "docs" / "install.md").read_text()
    (command,) = (line for line in page.splitlines() if line.startswith("cosign verify-blob --key"))
    return command


def verified(cosign: Path, file: Path, public_key: Path | None = None) -> bool:
    """Whether cosign accepts the file, by the documented command."""
    _, *words = documented().replace(release.SUMS, file.name).split()
    if public_key:
        words[words.index(PUBLIC_KEY)] = str(public_key)
    done = subprocess.run(
        [cosign, *words], cwd=file.parent, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0 or "failed to verify signature" in done.stderr, done.stderr
    return done.returncode == 0


def test_what_is_passed_on_is_signed_and_the_sums_are_of_every_file(folder: Path, cosign: Path) -> None:
    assert {path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}")} == set(SIGNED)
    assert all(verified(cosign, folder / name) for name in SIGNED)
    summed = {line.split()[1] for line in (folder / release.SUMS).read_text().splitlines()}
    everything = {path.name for path in folder.iterdir()}
    assert everything - summed == {release.SUMS, *(name + SUFFIX for name in SIGNED)}
    assert all(path.stat().st_mode & 0o044 for path in folder.iterdir())
    checked = subprocess.run(
        ["sha256sum", "--check", release.SUMS], cwd=folder, capture_output=True, check=False
    )
    assert checked.returncode == 0


def test_nothing_but_the_key_is_needed(folder: Path, cosign: Path, network: socket.socket) -> None:
    assert verified(cosign, folder / release.SUMS)
    with pytest.raises(BlockingIOError):
        network.accept()


def test_a_signature_is_that_of_the_published_key_without_cosign_too(folder: Path) -> None:
    """ECDSA over SHA-256: whatever library a user trusts can check it."""
    public_key = serialization.load_pem_public_key((folder / PUBLIC_KEY).read_bytes())
    assert isinstance(public_key, ec.EllipticCurvePublicKey)
    for name in SIGNED:
        bundle = json.loads((folder / (name + SUFFIX)).read_text())
        signature = base64.b64decode(bundle["messageSignature"]["signature"])
        public_key.verify(signature, (folder / name).read_bytes(), ec.ECDSA(hashes.SHA256()))
        with pytest.raises(InvalidSignature):
            public_key.verify(signature, b"another content", ec.ECDSA(hashes.SHA256()))


@pytest.mark.parametrize("name", SIGNED)
def test_a_changed_file_is_refused(folder: Path, cosign: Path, name: str) -> None:
    with (folder / name).open("a") as file:
        file.write("\n")
    assert not verified(cosign, folder / name)


def test_the_key_of_somebody_else_is_refused(folder: Path, cosign: Path, tmp_path: Path) -> None:
    foreign = key_pair(cosign, tmp_path / "foreign").with_suffix(".pub")
    assert not verified(cosign, folder / release.SUMS, foreign)
    # And so is a release that somebody else signed, for whoever has our key.
    again = tmp_path / "again"
    again.mkdir()
    (again / CHART).write_text("another chart")
    release.seal(again, Signer.by_key(cosign, str(foreign.with_suffix(".key"))))
    assert verified(cosign, again / CHART)
    assert not verified(cosign, again / CHART, folder / PUBLIC_KEY)


def test_a_key_that_cannot_be_used_is_reported_before_the_release(
    cosign: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COSIGN_PASSWORD", "wrong")
    with pytest.raises(CommandFailedError, match="decryption failed"):
        Signer.by_key(cosign, str(key))
    monkeypatch.delenv("COSIGN_PASSWORD")
    with pytest.raises(DevclusterError, match=r"password of the key .* is not set"):
        Signer.by_key(cosign, str(key))
