"""Names, labels and fixed values of the AppWrapper API (its published manifests)."""

from __future__ import annotations

from typing import Final

LABEL: Final = "workload.codeflare.dev/appwrapper"
"""On every component and every pod: the AppWrapper's name."""
FINALIZER: Final = "workload.codeflare.dev/finalizer"
USER_LABEL: Final = "workload.codeflare.dev/user"
USER_ID_LABEL: Final = "workload.codeflare.dev/userid"
MANAGER: Final = "workload.codeflare.dev/appwrapper-controller"
MANAGED_BY_US: Final = frozenset({None, "", MANAGER})

ANNOTATION: Final = "workload.codeflare.dev.appwrapper/"
"""The prefix of the annotations that configure fault tolerance."""
COMPONENT_ANNOTATION: Final = f"{ANNOTATION}component"
"""On every pod: the index of its component, so that the pod is counted for that component."""

TERMINAL: Final = frozenset({"Succeeded", "Failed"})
POD_SETS_MAX: Final = 8
"""The maximum of one Workload, in the supported Kueue versions."""
