"""Groups of Kueue's resources in the rights of the systems that queue."""

from __future__ import annotations

from typing import Final

KUEUE: Final = "kueue.x-k8s.io"
PARAMETERS: Final = f"resourceflavors.{KUEUE} workloadpriorityclasses.{KUEUE}"
"""What places a Workload and orders it."""
