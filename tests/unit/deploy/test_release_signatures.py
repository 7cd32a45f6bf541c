"""What a release says of its signatures, and the calls of cosign; tests/integration has real signatures."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev import release
from dev.release_signatures import PUBLIC_KEY, Signer, statement
from devcluster import DevclusterError

ROOT = Path(__file__).parents[3]
SOURCE = release.Source(ROOT, 1_700_000_000)
PUBLIC = "a public key\n"
STAND_IN = """\
#!/bin/sh
echo "$@" >> {calls}
case "$1" in
public-key) echo '{public}' ;;
sign-blob) : > "$4" ;;  # after --yes --bundle
esac
"""


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """The file to which the stand-in for cosign writes the words of each call."""
    return tmp_path / "calls"


@pytest.fixture
def cosign(tmp_path: Path, calls: Path) -> Path:
    program = tmp_path / "cosign"
    program.write_text(STAND_IN.format(calls=calls, public=PUBLIC.strip()))
    program.chmod(0o755)
    return program


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    out = tmp_path / "release"
    out.mkdir()
    (out / "fournos-1.tgz").write_text("chart")
    return out


def test_a_release_without_a_key_says_that_it_is_not_signed(folder: Path) -> None:
    assert "signatures none: this release is not signed\n" in release.notes(SOURCE, {}, None)
    release.seal(folder, None)
    assert sorted(path.name for path in folder.iterdir()) == [release.SUMS, "fournos-1.tgz"]


def test_a_signed_release_names_the_key_and_publishes_it(folder: Path, cosign: Path) -> None:
    signer = Signer.by_key(cosign, "awskms:///alias/fournos")
    assert f"by the key of {PUBLIC_KEY}\n" in release.notes(SOURCE, {}, signer)
    release.seal(folder, signer)
    assert (folder / PUBLIC_KEY).read_text() == PUBLIC
    assert f"  {PUBLIC_KEY}\n" in (folder / release.SUMS).read_text()


def test_with_a_key_no_service_is_named(folder: Path, cosign: Path, calls: Path) -> None:
    Signer(cosign, "k", PUBLIC).sign(folder / "fournos-1.tgz")
    *_, signing = calls.read_text().splitlines()
    assert signing.startswith("sign-blob --yes --bundle ") and " --key k --signing-config " in signing


def test_without_a_key_the_workflow_signs_and_no_key_is_published(
    folder: Path, cosign: Path, calls: Path
) -> None:
    signer = Signer(cosign)
    assert statement(signer).endswith("keyless, by the workflow of the release")
    release.seal(folder, signer)
    assert not (folder / PUBLIC_KEY).exists()
    assert calls.read_text().splitlines() == [
        f"sign-blob --yes --bundle {folder / name}.sigstore.json {folder / name}"
        for name in ("fournos-1.tgz", release.SUMS)
    ]


def test_the_key_is_that_of_the_option_or_of_the_variable(
    cosign: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[Signer | None] = []

    def refuses(*arguments: object) -> Path:
        given.append(arguments[3])  # type: ignore[arg-type]
        raise DevclusterError("enough")

    monkeypatch.setattr(release, "release", refuses)
    monkeypatch.setattr(release, "ensure", lambda *_: cosign)
    monkeypatch.setenv("COSIGN_PASSWORD", "")
    for name, value, words in (
        ("COSIGN_OTHER", "", []),
        ("COSIGN_OTHER", "", ["--sign-key=a.key"]),
        ("COSIGN_OTHER", "", ["--sign-keyless"]),
        ("COSIGN_KEY", "b.key", []),
    ):
        monkeypatch.setenv(name, value)
        assert release.main(words) == 1
    assert given == [None, Signer(cosign, "a.key", PUBLIC), Signer(cosign), Signer(cosign, "b.key", PUBLIC)]
    with pytest.raises(SystemExit):  # cosign would take the key of the variable
        release.main(["--sign-keyless"])
    assert "a key is given by --sign-key or COSIGN_KEY" in capsys.readouterr().err
