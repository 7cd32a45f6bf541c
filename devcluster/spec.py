"""The specification of a cluster, and a hash of its shape."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from devcluster.errors import DevclusterError
from devcluster.versions import FIRST, Versions, asked

Profile = Literal["full", "control-plane"]
ProviderName = Literal["native", "kind", "existing"]

PARTS = ("tekton", "kueue")
"""The optional parts that are installed on top of Kubernetes."""

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """The specification of a cluster.

    `kueue_config` is merged into Kueue's Configuration (config.kueue.x-k8s.io). `controllers` is the value
    of the controller manager's `--controllers`. `kubeconfig` and `install` belong to the provider `existing`.
    `versions` names the set of versions of its programs. With `durable` etcd waits for the disk and the API
    server collects garbage as it is shipped, which measurements may want; native clusters alone.
    Raises DevclusterError for a name that Kubernetes or Linux would refuse, and for an unknown part or set.
    """

    name: str
    profile: Profile = "full"
    provider: ProviderName = "native"
    without: frozenset[str] = frozenset()
    kueue_config: dict[str, Any] = field(default_factory=dict)
    controllers: str | None = None
    kubeconfig: str | None = None
    install: bool = False
    durable: bool = False
    versions: str = field(default_factory=asked)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise DevclusterError(
                f"{self.name!r} cannot name a cluster",
                hint="Use at most 30 lower-case letters, digits and hyphens, a letter first.",
            )
        Versions.named(self.versions)
        unknown = self.without - set(PARTS)
        if unknown:
            raise DevclusterError(
                f"--without {','.join(sorted(unknown))}: no such part",
                hint=f"The parts are {', '.join(PARTS)}.",
            )
        if self.provider == "existing" and not self.kubeconfig:
            raise DevclusterError("The provider `existing` needs a kubeconfig", hint="Add --kubeconfig FILE.")

    @property
    def version_set(self) -> Versions:
        return Versions(self.versions)

    def has(self, part: str) -> bool:
        return part not in self.without

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "profile": self.profile,
            "provider": self.provider,
            "without": sorted(self.without),
            "kueue_config": self.kueue_config,
            "controllers": self.controllers,
            "kubeconfig": self.kubeconfig,
            "install": self.install,
            "durable": self.durable,
            "versions": self.versions,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ClusterSpec:
        return cls(**{"versions": FIRST, **data, "without": frozenset(data["without"])})

    def shape(self) -> str:
        """A hash of all settings that distinguish clusters, and of the sources of the programs."""
        text = json.dumps([self.to_json(), self.version_set.sources_hash()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]
