"""A real S3 server: SeaweedFS, one program from a wheel, in a directory of its own on loopback alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
import tempfile
import urllib.request
import uuid
from pathlib import Path

from devcluster import pki
from tests.waiting import blocking_until, free_port

HOST = "127.0.0.1"
BUCKET = "history"
WRITER = ("writer-access-key", "writer-secret-key")
READER = ("reader-access-key", "reader-secret-key")
"""May list and read, and nothing else."""
_IDENTITIES = {
    WRITER: ["Admin", "Read", "Write", "List", "Tagging"],
    READER: ["Read", "List"],
}


class S3Server:
    """One server.  `kill` and `start` are for tests of a store that goes and comes back."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="fournos-s3-"))
        (self.directory / "data").mkdir()
        self.ca_file = self.directory / "authority.crt"
        authority = pki.authority("s3-tests")
        self.ca_file.write_bytes(authority.certificate_pem)
        pki.issue(authority, "s3", hosts=[HOST, "localhost"]).write(self.directory, "server")
        identities = [
            {"name": access, "credentials": [{"accessKey": access, "secretKey": secret}], "actions": actions}
            for (access, secret), actions in _IDENTITIES.items()
        ]
        (self.directory / "s3.json").write_text(json.dumps({"identities": identities}))
        parts = ("master", "volume", "filer", "s3")
        names = [f"{part}.port{kind}" for part in parts for kind in ("", ".grpc")] + ["s3.port.https"]
        self._ports = {name: free_port() for name in names}
        self._process: subprocess.Popen[bytes] | None = None
        self.start()
        self.make_bucket(BUCKET)

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self._ports['s3.port']}"

    @property
    def secure_endpoint(self) -> str:
        return f"https://{HOST}:{self._ports['s3.port.https']}"

    def place(self) -> str:
        """Returns the URL of a part of the bucket that nothing else uses."""
        return f"s3://{BUCKET}/test/{uuid.uuid4().hex}"

    def variables(self, keys: tuple[str, str] = WRITER) -> dict[str, str]:
        """Returns the variables with which these keys use the server."""
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL")
        return dict(zip(names, (*keys, self.endpoint), strict=True))

    def make_bucket(self, name: str) -> None:
        self._filer("POST", f"buckets/{name}/")  # A folder of this place is a bucket.

    def start(self) -> None:
        """Starts it; returns when it takes requests."""
        options = {
            "ip": HOST,
            "ip.bind": HOST,
            "dir": str(self.directory / "data"),
            "master.telemetry": "false",
            "master.electionTimeout": "1s",
            "master.resumeState": "false",
            "master.volumeSizeLimitMB": "64",
            "volume.max": "0",
            "volume.preStopSeconds": "0",
            "filer.localSocket": str(self.directory / "filer.sock"),
            "s3": "true",
            "s3.autoCreateBucket": "false",
            "s3.config": str(self.directory / "s3.json"),
            "s3.cert.file": str(self.directory / "server.crt"),
            "s3.key.file": str(self.directory / "server.key"),
            "s3.port.iceberg": "0",
            "s3.port.lance": "0",
            **{name: str(port) for name, port in self._ports.items()},
        }
        words = [f"-{name}={value}" for name, value in options.items()]
        program = Path(sysconfig.get_path("scripts")) / "weed"
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, "-logtostderr", "server", *words], stdout=log, stderr=log, cwd=self.directory
            )
        blocking_until(self._ready, self._log, pause=0.1)

    def kill(self) -> None:
        """Ends it without a shutdown."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.directory)

    def _ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log()
        try:
            with urllib.request.urlopen(f"{self.endpoint}/status", timeout=5):
                self._filer("PUT", f"ready/{uuid.uuid4().hex}", b"a volume takes this")
                return True
        except OSError:
            return False

    def _filer(self, method: str, path: str, content: bytes | None = None) -> None:
        address = f"http://{HOST}:{self._ports['filer.port']}/{path}"
        request = urllib.request.Request(address, data=content, method=method)
        with urllib.request.urlopen(request, timeout=30):
            pass

    def _log(self) -> str:
        return (self.directory / "log").read_text()[-4000:]
