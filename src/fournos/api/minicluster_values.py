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
