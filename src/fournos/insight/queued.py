"""What every queued object has: a queue, a priority and a Workload with a state.  Pure."""

from __future__ import annotations

from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.job import PRIORITY_LABEL
from fournos.engine.queueing.podsets import queue_name as queue_name
from fournos.engine.queueing.workload import LOCAL_QUEUE as LOCAL_QUEUE
from fournos.engine.queueing.workload import WORKLOAD as WORKLOAD
from fournos.engine.queueing.workload import view


def priority_class(obj: Obj) -> str:
    """The name of the priority class in the object's labels; "" if there is none."""
    return str((obj["metadata"].get("labels") or {}).get(PRIORITY_LABEL) or "")


def workload_state(workload: Obj) -> str:
    """The state of a Workload in one word, such as Waiting or Admitted."""
    return view(workload).state.value
