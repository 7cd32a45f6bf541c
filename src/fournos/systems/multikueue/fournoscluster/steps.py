"""The step that validates a kubeconfig before it is copied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import SECRET, Key
from fournos.engine.kube.untrusted_kubeconfig import check
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Executor
from fournos.engine.runtime.steps import Custom
from fournos.systems.multikueue.kubeconfig import content_of


@dataclass(frozen=True, slots=True)
class CheckKubeconfig(Custom):
    """Validates a kubeconfig; fails for one that Kueue would refuse, and the steps after it are not run."""

    secret: Key


def executors(clock: Clock) -> Mapping[type[Custom], Executor]:
    return {CheckKubeconfig: partial(_check_kubeconfig, clock)}


async def _check_kubeconfig(clock: Clock, step: CheckKubeconfig, api: Api) -> None:
    check(content_of(await api.get(SECRET, step.secret)), now=clock.now())
