"""Groups of Kueue's resources in the rights of the systems that queue."""

from __future__ import annotations

from typing import Final

from fournos.engine.queueing.kinds import GROUP

KUEUE: Final = GROUP
PARAMETERS: Final = f"resourceflavors.{KUEUE} workloadpriorityclasses.{KUEUE}"
"""What places a Workload and orders it."""
