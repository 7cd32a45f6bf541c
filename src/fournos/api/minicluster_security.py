"""Security contexts of pods and containers, with the fields that Kubernetes' core API gives them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import WithJsonSchema

from fournos.api.minicluster_values import Name, a_name
from fournos.engine.api.crd import Model, described

_Names = Annotated[
    tuple[str, ...],
    WithJsonSchema({"type": "array", "maxItems": 64, "items": {"type": "string", "maxLength": 253}}),
]
_Groups = Annotated[
    tuple[int, ...],
    WithJsonSchema({"type": "array", "maxItems": 1024, "items": {"type": "integer", "format": "int64"}}),
]


class _Context(Model):
    """What a pod takes over unchanged."""

    def as_json(self) -> dict[str, Any]:
        """Returns only the fields that are set."""
        return self.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)


class SELinuxOptions(Model):
    """An SELinux context."""

    level: str | None = a_name("Level label.")
    role: str | None = a_name("Role label.")
    type: str | None = a_name("Type label.")
    user: str | None = a_name("User label.")


class SeccompProfile(Model):
    """A seccomp or AppArmor profile."""

    localhost_profile: str | None = a_name("Profile on the node, for the type Localhost.")
    type: str | None = a_name("Localhost, RuntimeDefault or Unconfined.")


class WindowsOptions(Model):
    """Options of Windows containers."""

    gmsa_credential_spec: str | None = described("GMSA credential spec, inlined.", maxLength=32768)
    gmsa_credential_spec_name: str | None = a_name("Name of the GMSA credential spec.")
    host_process: bool | None = described("Run as a HostProcess container.")
    run_as_user_name: str | None = a_name("User that runs the entrypoint.")


class Sysctl(Model):
    """A kernel parameter."""

    name: Name = described("Name of the parameter.", "")
    value: str | None = a_name("Its value.")


class Capabilities(Model):
    """Linux capabilities."""

    add: _Names = described("Capabilities to add.", ())
    drop: _Names = described("Capabilities to take away.", ())


class _Shared(_Context):
    """What pods and containers have in common."""

    app_armor_profile: SeccompProfile | None = described("AppArmor profile.")
    run_as_group: int | None = described("Group that runs the entrypoint.", format="int64")
    run_as_non_root: bool | None = described("Refuse to run as root.")
    run_as_user: int | None = described("User that runs the entrypoint.", format="int64")
    se_linux_options: SELinuxOptions | None = described("SELinux context.")
    seccomp_profile: SeccompProfile | None = described("Seccomp profile.")
    windows_options: WindowsOptions | None = described("Options of Windows containers.")


class PodSecurityContext(_Shared):
    """Security of all containers of a pod."""

    fs_group: int | None = described("Group that owns the volumes.", format="int64")
    fs_group_change_policy: str | None = a_name("When the ownership of volumes is changed.")
    se_linux_change_policy: str | None = a_name("How volumes are labelled.")
    supplemental_groups: _Groups = described("More groups of the first process.", ())
    supplemental_groups_policy: str | None = a_name("Merge or Strict.")
    sysctls: tuple[Sysctl, ...] = described("Kernel parameters of the pod.", (), maxItems=64)


class SecurityContext(_Shared):
    """Security of one container."""

    add_capabilities: _Names = described("Short for capabilities.add.", ())
    allow_privilege_escalation: bool | None = described("May gain more rights than its parent.")
    capabilities: Capabilities | None = described("Linux capabilities.")
    privileged: bool | None = described("Run with all rights of the node.")
    proc_mount: str | None = a_name("Default or Unmasked.")
    read_only_root_filesystem: bool | None = described("Mount the image read-only.")

    def as_json(self) -> dict[str, Any]:
        """Returns the fields that are set, with addCapabilities in the place that Kubernetes has for it."""
        context = super().as_json()
        added = context.pop("addCapabilities", ())
        if added:
            capabilities = context.setdefault("capabilities", {})
            capabilities["add"] = [*capabilities.get("add", ()), *added]
        return context
