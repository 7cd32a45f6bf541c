"""Reads objects without kubectl: a wait reads several times a second, and each start of kubectl takes a tenth
of a CPU second. A connection is kept for the next read: to agree on keys costs more than an answer.
"""

from __future__ import annotations

import json
from functools import cache
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from tests.kubeconfigs import connection
from tests.waiting import LIMIT

_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Served(NamedTuple):
    """A kind as the API server serves it."""

    prefix: str
    plural: str
    namespaced: bool


class Reader:
    """Has the rights of the current context of its kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        url, self._tls, self._headers = connection(kubeconfig)
        self._host = urlsplit(url).netloc
        self._kinds: dict[str, Served] = {}
        self._idle: list[HTTPSConnection] = []

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def read(self, namespace: str, kind: str, name: str = "", *, selector: str = "") -> dict[str, Any] | None:
        """Returns an object, or a list without a name, as `kubectl get -o json` does; {} if there is none.

        None: kubectl must be asked, whose error is the answer.
        """
        try:
            if kind.lower() not in self._kinds:
                self._kinds = self._discover()
            served = self._kinds.get(kind.lower())
            if served is None:
                return None
            found = self._get(_path(served, namespace, name, selector))
            return _plain(found) if found else found
        except (OSError, HTTPException, ValueError):
            return None

    def _get(self, path: str, accept: str = "application/json") -> dict[str, Any]:
        """Returns {} for an object that is not there. Raises ValueError for any other that is not 200."""
        try:
            server = self._idle.pop()  # of one thread until it is put back
        except IndexError:
            server = HTTPSConnection(self._host, timeout=LIMIT, context=self._tls)
        try:
            server.request("GET", path, headers={**self._headers, "Accept": accept})
            answer = server.getresponse()
            body = answer.read()
        except BaseException:
            server.close()
            raise
        self._idle.append(server)
        found: dict[str, Any] = json.loads(body)
        if answer.status == 404 and found.get("reason") == "NotFound" and "name" in found.get("details", {}):
            return {}
        if answer.status != 200:
            raise ValueError(body)
        return found

    def _discover(self) -> dict[str, Served]:
        """Each kind by all its names; of equal names the first, as kubectl takes them."""
        found: dict[str, Served] = {}
        for root in ("/api", "/apis"):
            for group in self._get(root, _DISCOVERY)["items"]:
                group_name = group["metadata"].get("name", "")
                for version in group["versions"]:
                    prefix = "/".join(part for part in (root, group_name, version["version"]) if part)
                    for one in version.get("resources") or ():
                        served = Served(prefix, one["resource"], one["scope"] == "Namespaced")
                        for name in _names(one):
                            found.setdefault(name, served)
                            found.setdefault(f"{name}.{group_name}", served)
        return found


@cache
def reader(kubeconfig: Path, written: int) -> Reader:
    """One for each content of a kubeconfig, which was `written` (nanoseconds) then."""
    return Reader(kubeconfig)


def _names(resource: dict[str, Any]) -> set[str]:
    kind = resource["responseKind"]["kind"]
    names = {resource["resource"], resource.get("singularResource", ""), kind}
    return {name.lower() for name in names | set(resource.get("shortNames") or ()) if name}


def _path(served: Served, namespace: str, name: str, selector: str) -> str:
    path = f"{served.prefix}/namespaces/{namespace}" if served.namespaced else served.prefix
    path = f"{path}/{served.plural}" + (f"/{name}" if name else "")
    return f"{path}?{urlencode({'labelSelector': selector})}" if selector else path


def _plain(found: dict[str, Any]) -> dict[str, Any]:
    """As kubectl shows it: without managed fields, and each object of a list with its kind."""
    items = found.get("items")
    for one in [found] if items is None else items:
        one["metadata"].pop("managedFields", None)
        if items is not None:
            one.setdefault("apiVersion", found["apiVersion"])
            one.setdefault("kind", found["kind"].removesuffix("List"))
    return found
