"""Signs files of a release with cosign.

With a key nothing else is needed: no transparency log, no network.  Without one cosign gets a certificate for
the identity of the workflow in which it runs, and writes to the public transparency log.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devcluster import DevclusterError
from devcluster.shell import run

PUBLIC_KEY: Final = "cosign.pub"
SUFFIX: Final = ".sigstore.json"
"""Of the bundle of a signature, which has the name of its file and this."""
_LIMIT: Final = 120.0


@dataclass(frozen=True)
class Signer:
    """cosign and a key: a file, or an address that cosign knows, such as a KMS's.  Empty: keyless."""

    program: Path
    key: str = ""
    public_key: str = ""
    """In PEM."""

    @classmethod
    def by_key(cls, program: Path, key: str) -> Signer:
        """Raises DevclusterError if the key cannot be read.  It never asks for a password."""
        if "://" not in key and "COSIGN_PASSWORD" not in os.environ:
            raise DevclusterError(
                f"The password of the key {key} is not set",
                hint="Set COSIGN_PASSWORD; it is empty for a key without a password.",
            )
        return cls(program, key, run([program, "public-key", "--key", key], limit=_LIMIT).stdout)

    def sign(self, file: Path) -> None:
        """Writes the bundle beside the file.  Raises CommandFailedError with the output of cosign."""
        bundle = file.with_name(file.name + SUFFIX)
        words: list[str | Path] = [self.program, "sign-blob", "--yes", "--bundle", bundle]
        with tempfile.TemporaryDirectory() as scratch:
            if self.key:
                words += ["--key", self.key, *self._without_services(Path(scratch))]
            run([*words, file], limit=_LIMIT)
        bundle.chmod(0o644)  # cosign makes it for its user alone

    def _without_services(self, scratch: Path) -> list[str | Path]:
        """Returns the options that name no transparency log, else cosign asks its default ones."""
        services, roots = scratch / "services.json", scratch / "roots.json"
        run([self.program, "signing-config", "create", "--out", services], limit=_LIMIT)
        run([self.program, "trusted-root", "create", "--out", roots], limit=_LIMIT)
        return ["--signing-config", services, "--trusted-root", roots]


def statement(signer: Signer | None) -> str:
    """Returns the sentence about signatures in the notes of a release."""
    if signer is None:
        return "none: this release is not signed"
    whose = f"by the key of {PUBLIC_KEY}" if signer.key else "keyless, by the workflow of the release"
    return f"FILE{SUFFIX} of SHA256SUMS, the chart and the images, {whose}"
