"""Sets the conditions KubeconfigValid and Reachable."""

from __future__ import annotations

from datetime import timedelta

from fournos.api.fournoscluster import KubeconfigStatus
from fournos.engine.api.values import format_time
from fournos.engine.kube.probe import Probe
from fournos.engine.kube.resource import key_of
from fournos.systems.clusters import names
from fournos.systems.clusters.context import Context
from fournos.systems.clusters.steps import Connect, Disconnect

REFUSALS = frozenset({"KubeconfigRefusedError", "CredentialsError"})
BAD_CREDENTIALS = frozenset({"Unauthorized", "CertificateExpired", "TokenExpired"})
"""Reasons of a failed probe that only a new kubeconfig can fix."""
EXPIRES_SOON = timedelta(days=14)
_NO_NAME = "spec.kubeconfigSecret is not set: name the Secret that holds the cluster's kubeconfig"


def connectivity(ctx: Context) -> None:
    """Sets `status.kubeconfigStatus` and `status.connection`; opens or closes the connection."""
    secret = ctx.observed.secret
    if secret is None:
        name = ctx.spec.kubeconfig_secret
        text = f"no Secret {name} with the label {names.SECRET_SELECTOR}" if name else _NO_NAME
        _unusable(ctx, KubeconfigStatus.MISSING, "SecretMissing", text)
        return
    if not secret["hasKubeconfig"]:
        text = f"Secret {key_of(secret)} has no key kubeconfig"
        _unusable(ctx, KubeconfigStatus.INVALID, "NoKubeconfigKey", text)
        return
    _again(ctx)
    version = ctx.secret_version
    assert version is not None
    if ctx.renewing:
        return
    failure = ctx.facts.failure
    if failure and isinstance(failure.step, Connect) and failure.error in REFUSALS:
        _unusable(ctx, KubeconfigStatus.INVALID, failure.reason or "Refused", failure.message)
        return
    before = ctx.draft.connection
    if ctx.observed.connected != version:
        refused = ctx.draft.is_false("KubeconfigValid") and before.error is None
        if before.secret_version == version and refused:
            return  # this version of the Secret was refused before; only a change of the Secret can help
        ctx.steps.append(Connect(key_of(secret), ctx.name, version, before.unreachable_since))
    ctx.draft.put(connection={**ctx.draft.group("connection"), "secretVersion": version})
    probe = ctx.observed.probe if ctx.observed.connected == version else None
    # Without a new probe, the earlier result for this version stays
    if probe is not None or before.secret_version != version:
        _valid(ctx, probe)
    if probe is not None:
        _probed(ctx, probe)
    elif not ctx.draft.reason_of("Reachable"):
        ctx.draft.condition("Reachable", "Unknown", "NotProbed", "not probed yet")


def _again(ctx: Context) -> None:
    """Handles a new value of the discover annotation: reconnects, and tries a refused kubeconfig again."""
    requested = (ctx.cluster["metadata"].get("annotations") or {}).get(names.DISCOVER_ANNOTATION)
    if not requested or requested == ctx.draft.discover_requested:
        return
    hardware, connection = ctx.draft.group("hardware"), ctx.draft.group("connection")
    for name in ("lastDiscovery", "lastAttempt"):
        hardware.pop(name, None)
    connection.pop("secretVersion", None)
    if ctx.observed.connected is not None:
        ctx.steps.append(Disconnect(ctx.name))
        ctx.renewing = True
    ctx.draft.put(discoverRequested=requested, hardware=hardware or None, connection=connection)


def _unusable(ctx: Context, status: KubeconfigStatus, reason: str, text: str) -> None:
    """Disconnects and sets both conditions for a Secret that is missing or refused."""
    if ctx.observed.connected is not None:
        ctx.steps.append(Disconnect(ctx.name))
    ctx.draft.put_condition("KubeconfigValid", "False", reason, text)
    ctx.draft.condition("Reachable", "Unknown", reason, "without a usable kubeconfig it cannot be probed")
    version = ctx.secret_version
    ctx.draft.put(kubeconfigStatus=status.value, connection={"secretVersion": version} if version else None)


def _probed(ctx: Context, probe: Probe) -> None:
    """Writes the result of a probe to `status.connection` and the condition Reachable."""
    connection, before = ctx.draft.group("connection"), ctx.draft.connection
    if probe.certificate_expires is not None:
        connection["certificateExpires"] = format_time(probe.certificate_expires)
    else:
        connection.pop("certificateExpires", None)
    if probe.reachable:
        connection["version"] = probe.version
        connection["latencyMs"] = _steady(before.latency_ms, probe.latency_ms)
        connection.pop("error", None)
        connection.pop("unreachableSince", None)
        ctx.draft.put(kubeconfigStatus=KubeconfigStatus.VALID.value, connection=connection)
        ctx.draft.put_condition("Reachable", "True", "Reachable", f"Kubernetes {probe.version}")
        return
    since = probe.unreachable_since or before.unreachable_since or ctx.now
    tolerated_until = since + timedelta(seconds=ctx.settings.reconcile_interval_sec)
    connection["error"] = probe.error[:1024]
    connection.setdefault("unreachableSince", format_time(since))
    ctx.draft.put(connection=connection)
    bad = probe.reason in BAD_CREDENTIALS
    if ctx.draft.is_true("Reachable") and ctx.now < tolerated_until and not bad:
        # One failed probe must not close a cluster; a second failure after the interval does
        ctx.wake(tolerated_until)
        return
    ctx.draft.put(kubeconfigStatus=(KubeconfigStatus.INVALID if bad else KubeconfigStatus.UNREACHABLE).value)
    ctx.draft.put_condition("Reachable", "False", probe.reason or "Unreachable", probe.error)


def _valid(ctx: Context, probe: Probe | None) -> None:
    """Sets the condition KubeconfigValid of a kubeconfig that was accepted."""
    expires = probe.certificate_expires if probe is not None else None
    if probe is not None and not probe.reachable and probe.reason in BAD_CREDENTIALS:
        ctx.draft.put_condition("KubeconfigValid", "False", probe.reason, probe.error)
    elif expires is not None and expires - ctx.now < EXPIRES_SOON:
        text = f"the credentials expire at {format_time(expires)}: renew the Secret"
        ctx.draft.put_condition("KubeconfigValid", "True", "ExpiresSoon", text)
    else:
        ctx.wake(expires - EXPIRES_SOON if expires is not None else None)
        ctx.draft.put_condition(
            "KubeconfigValid", "True", "Accepted", "the kubeconfig is complete and safe to use"
        )


def _steady(before: int | None, now: float) -> int:
    """Returns the latency in whole milliseconds.

    The earlier value is kept unless the new one is more than twice or less than half of it, so that normal
    variation causes no status write.
    """
    value = max(1, round(now))
    if before and value <= 2 * before and before <= 2 * value:
        return before
    return value
