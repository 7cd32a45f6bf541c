"""Where an S3 bucket is: the URL `s3://bucket/prefix`, and how its server is reached.  Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from fournos.history.blobs.blobs import KEY

SCHEME: Final = "s3://"
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


@dataclass(frozen=True, slots=True)
class S3Location:
    """A bucket, or the part of it below a prefix."""

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    """URL of the server; empty: that of AWS, or of the environment."""
    region: str = ""
    path_style: bool = True
    """False: the bucket is a part of the server's name."""
    ca_file: str = ""

    def __str__(self) -> str:
        below = f"/{self.prefix}" if self.prefix else ""
        server = f" at {self.endpoint}" if self.endpoint else ""
        return f"{SCHEME}{self.bucket}{below}{server}"

    @property
    def address(self) -> str:
        """The endpoint of requests."""
        if self.path_style or not self.endpoint:
            return self.endpoint
        scheme, _, host = self.endpoint.partition("://")
        return f"{scheme}://{self.bucket}.{host}"


def parse_url(url: str) -> tuple[str, str]:
    """Returns the bucket and the prefix.  Raises ValueError; the message does not repeat what it read."""
    bucket, _, prefix = url.removeprefix(SCHEME).partition("/")
    prefix = prefix.removesuffix("/")
    if not url.startswith(SCHEME) or not _BUCKET.fullmatch(bucket):
        raise ValueError("write it as s3://bucket/prefix; credentials have variables of their own")
    if prefix and not KEY.fullmatch(prefix):
        raise ValueError(
            "the prefix has up to eight names of letters, digits, '.', '_' and '-', divided by slashes"
        )
    return bucket, prefix


def parse_endpoint(endpoint: str) -> str:
    """Returns the endpoint.  Raises ValueError for one that is not a plain http or https URL of a server."""
    parts = urlsplit(endpoint)
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain or parts.path.strip("/"):
        raise ValueError("write it as https://host or https://host:port, without a path and credentials")
    return endpoint.rstrip("/")
