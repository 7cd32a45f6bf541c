"""Checks of admission webhooks: the authorities that are trusted, and the Services that are called.  Pure."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.utils import CryptographyDeprecationWarning

from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Key, Obj
from fournos.insight.doctor.facts import DoctorFacts
from fournos.insight.doctor.finding import DoctorFinding, Level, unreadable
from fournos.insight.values import count, name_of, short

AREA: Final = "Webhooks"
_SOON: Final = timedelta(days=7)
_RENEWED: Final = 0.1
"""The part of its time before which a server renews its authority; Tekton makes one for a week at a time."""
_STRICT: Final = "Fail"


def check_webhooks(facts: DoctorFacts, now: datetime) -> Iterator[DoctorFinding]:
    if isinstance(facts.webhooks, KubeError):
        yield unreadable(AREA, "configurations", facts.webhooks)
        return
    for configuration in facts.webhooks:
        yield from _check(configuration, facts, now)


def _check(configuration: Obj, facts: DoctorFacts, now: datetime) -> Iterator[DoctorFinding]:
    """One finding for each server that the configuration names, with the strictest of its webhooks."""
    servers: dict[Key | str, list[Mapping[str, Any]]] = {}
    for webhook in configuration.get("webhooks") or ():
        client = webhook.get("clientConfig") or {}
        service = client.get("service") or {}
        where = (
            Key(str(service.get("namespace")), str(service.get("name"))) if service else client.get("url", "")
        )
        servers.setdefault(where, []).append(webhook)
    for where, webhooks in servers.items():
        what = name_of(configuration)
        if problem := _unreachable(where, facts):
            level = Level.FAULT if _strict(webhooks) else Level.WARNING
            effect = "what it checks cannot be created" if _strict(webhooks) else "it checks nothing"
            yield DoctorFinding(AREA, what, level, f"{problem}: {effect}", _see(where))
            continue
        yield _authority(what, where, webhooks, now)


def _strict(webhooks: list[Mapping[str, Any]]) -> bool:
    return any(webhook.get("failurePolicy", _STRICT) == _STRICT for webhook in webhooks)


def _unreachable(where: Key | str, facts: DoctorFacts) -> str:
    """Why the Service does not answer; "" if it has a ready endpoint, or if that cannot be known."""
    slices = facts.endpoints.get(where) if isinstance(where, Key) else None
    if slices is None or isinstance(slices, KubeError):
        return ""
    ready = [
        endpoint
        for one in slices
        for endpoint in one.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False
    ]
    return "" if ready else f"Service {where} has no ready endpoint"


def _see(where: Key | str) -> str:
    namespace = where.namespace if isinstance(where, Key) else ""
    return f"see whether its pods run: kubectl get pods -n {namespace}"


def _authority(
    what: str, where: Key | str, webhooks: list[Mapping[str, Any]], now: datetime
) -> DoctorFinding:
    """Judges the end of the authorities; a bundle counts until the last of them ends."""
    level = Level.FAULT if _strict(webhooks) else Level.WARNING
    fix = f"restart the server of these webhooks, or renew its certificate: {where}"
    bundles = {str((webhook.get("clientConfig") or {}).get("caBundle") or "") for webhook in webhooks}
    if "" in bundles and isinstance(where, Key):
        text = "without a caBundle: the API server cannot trust the server of these webhooks"
        return DoctorFinding(AREA, what, level, text, f"see why its operator writes none: logs of {where}")
    try:
        time = min((_time(bundle) for bundle in bundles if bundle), default=None)
    except ValueError:
        return DoctorFinding(AREA, what, level, "its caBundle has no certificate that can be read", fix)
    text = f"{count(len(webhooks), 'webhook')} at {where}"
    if time is None:
        return DoctorFinding(AREA, what, Level.OK, text)
    end, length = time
    if end <= now:
        return DoctorFinding(AREA, what, level, f"its authority ended {short(now - end)} ago", fix)
    if end <= now + min(_SOON, length * _RENEWED):
        return DoctorFinding(AREA, what, Level.WARNING, f"its authority ends in {short(end - now)}", fix)
    return DoctorFinding(AREA, what, Level.OK, f"{text}, trusted until {end:%Y-%m-%d}")


def _time(bundle: str) -> tuple[datetime, timedelta]:
    """The end and the length of the authority that lasts longest.  Raises ValueError if none can be read."""
    with warnings.catch_warnings():
        # Authorities that others made, such as one with the serial number 0, are not the reader's to mend.
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        found = x509.load_pem_x509_certificates(base64.b64decode(bundle, validate=True))
    return max((one.not_valid_after_utc, one.not_valid_after_utc - one.not_valid_before_utc) for one in found)
