"""Values that the parts of a MiniCluster share.

The limits keep CEL's cost estimate in bounds; they are far beyond what a pod can hold.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import WithJsonSchema

from fournos.engine.api.crd import INT_OR_STRING, Model, described

SCRIPT_MAX: Final = 262144
"""Maximum characters of a script; a ConfigMap can hold 1 MiB."""
NAME_MAX: Final = 253
PATH_MAX: Final = 4096
VALUE_MAX: Final = 32768

_QUANTITY: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)"
    r"|(\.[0-9]+))))?$"
)


def _texts(longest: int, entries: int) -> dict[str, Any]:
    return {
        "type": "object",
        "maxProperties": entries,
        "additionalProperties": {"type": "string", "maxLength": longest},
    }


def a_name(description: str) -> Any:
    """Returns an optional field with a name."""
    return described(description, maxLength=NAME_MAX)


def a_path(description: str) -> Any:
    """Returns an optional field with a path."""
    return described(description, maxLength=PATH_MAX)


def a_text(description: str) -> Any:
    """Returns an optional field with a short text."""
    return described(description, maxLength=VALUE_MAX)


def shell_code(description: str) -> Any:
    """Returns an optional field with shell code of one or more lines."""
    return described(description, maxLength=SCRIPT_MAX)


Labels = Annotated[dict[str, str], WithJsonSchema(_texts(VALUE_MAX, 256))]
Variables = Annotated[dict[str, str], WithJsonSchema(_texts(VALUE_MAX, 1024))]
Items = Annotated[dict[str, str], WithJsonSchema(_texts(PATH_MAX, 256))]
Name = Annotated[str, WithJsonSchema({"type": "string", "maxLength": NAME_MAX})]
Quantities = Annotated[
    dict[str, int | str],
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": 64,
            "additionalProperties": {**INT_OR_STRING, "pattern": _QUANTITY},
        }
    ),
]
"""Resource name to a whole number or a quantity in quotes (the MiniCluster page: all else is refused)."""


class ResourceClaim(Model):
    """A claim of the pod that a container uses."""

    name: Name = described("Name of the claim in spec.resourceClaims.", "")
    request: str | None = a_name("Request of the claim; absent: all of them.")


class Resources(Model):
    """What a container asks for."""

    limits: Quantities = described("The most that it may use.", {})
    requests: Quantities = described("What is reserved for it.", {})
    claims: tuple[ResourceClaim, ...] = described("Claims of the pod that it uses.", (), maxItems=64)

    def as_json(self) -> dict[str, Any]:
        """Returns the values as in a pod: quantities as strings, empty fields omitted."""
        parts: dict[str, Any] = {
            "limits": quantities(self.limits),
            "requests": quantities(self.requests),
            "claims": [claim.model_dump(by_alias=True, exclude_none=True) for claim in self.claims],
        }
        return {key: part for key, part in parts.items() if part}


def quantities(found: dict[str, int | str]) -> dict[str, str]:
    """Returns the amounts as strings, the form of quantities in a pod."""
    return {key: str(amount) for key, amount in found.items()}


# --- security contexts ---------------------------------------------------------------------------------
# Security contexts of pods and containers, with the fields that Kubernetes' core API gives them.

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
