"""A proxy in front of a real API server that injects the configured faults.

    async with FaultProxy(kubeconfig) as proxy:
        proxy.write_kubeconfig(path)                                   # for the client under test
        rule = proxy.on_request(Cut(after=True), verb="create", resource="workloads")
        proxy.on_event(ErrorEvent(500), resource="fournosjobs")
        await rule.hit.wait()

Without rules everything passes.  What a client sends as Authorization is passed on; without it the
request is made with the identity of the kubeconfig.  Protocol upgrades (exec, port-forward) are not
supported.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.credentials import load
from fournos.engine.kube.transport import Connector
from tests.fakes.pki import Authority, server_context
from tests.faults.rules import (
    Call,
    Cut,
    Delay,
    ErrorEvent,
    EventFault,
    Hide,
    Hold,
    Refuse,
    RequestFault,
    Rule,
    call_of,
)

_HOST = "127.0.0.1"
_PASSED_ON = ("Accept", "Content-Type", "User-Agent")
_ANSWERED = ("Content-Type", "Retry-After", "Audit-Id", "Warning")
_ENDLESS = aiohttp.ClientTimeout(total=None, sock_connect=10)


class FaultProxy:
    def __init__(self, kubeconfig: Path, *, tls: bool = False) -> None:
        """Serves plain HTTP, or TLS with a certificate of its own; on a free port."""
        self._target = load(kubeconfig)
        self._authority = Authority("fault-proxy-ca") if tls else None
        self._stack = AsyncExitStack()
        self._rules: list[Rule] = []
        self._watches: list[tuple[web.BaseRequest, Call]] = []
        self.url = ""
        self.calls: list[tuple[Call, int]] = []
        """Every call that was answered, with the status that the client saw (0: cut)."""

    async def __aenter__(self) -> FaultProxy:
        self._upstream = await self._stack.enter_async_context(
            # Not aiohttp's own: it keeps a cut watch open until the server ends TLS, even after the test.
            aiohttp.ClientSession(auto_decompress=False, connector=Connector(limit=0))
        )
        self._own_headers, self._own_tls = await self._target.proof()
        _, self._their_tls = await self._target.of(FixedIdentity(Proof())).proof()
        runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, _HOST, 0, ssl_context=self._served_tls())
        await site.start()
        port = runner.addresses[0][1]
        self.url = f"{'https' if self._authority else 'http'}://{_HOST}:{port}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.clear()
        self.cut_watches()
        await self._stack.aclose()

    # --- telling it what to do -----------------------------------------------------------------------

    def on_request(
        self,
        fault: RequestFault,
        *,
        verb: str = "",
        resource: str = "",
        namespace: str = "",
        name: str = "",
        subresource: str | None = None,
        times: int | None = 1,
    ) -> Rule:
        """The next `times` requests like this fail; verbs are those of RBAC."""
        return self._add(Rule(fault, verb, resource, namespace, name, subresource, None, times))

    def on_event(
        self,
        fault: EventFault,
        *,
        resource: str = "",
        namespace: str = "",
        name: str = "",
        type: str = "",
        times: int | None = 1,
    ) -> Rule:
        """The next `times` events like this, of any watch that is open or will be.

        `namespace` and `name` are the object's; `type` "" is any but BOOKMARK, "*" any.
        """
        return self._add(Rule(fault, "watch", resource, namespace, name, None, type, times))

    def clear(self) -> None:
        """No more faults; what is held passes."""
        for rule in self._rules:
            rule.cancel()
            if isinstance(rule.fault, Hold):
                rule.fault.release()
        self._rules.clear()

    def cut_watches(self, resource: str = "") -> int:
        """Drop the open watches of a resource ("": all) now; how many there were."""
        cut = [request for request, call in self._watches if resource in ("", call.resource)]
        for request in cut:
            _abort(request)
        return len(cut)

    def write_kubeconfig(self, path: Path) -> Path:
        """For a client of this proxy, which acts with the identity of the real kubeconfig."""
        cluster: dict[str, Any] = {"server": self.url}
        if self._authority:
            cluster["certificate-authority-data"] = base64.b64encode(self._authority.certificate).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": cluster}],
            "users": [{"name": "user", "user": {}}],
            "contexts": [
                {
                    "name": "proxy",
                    "context": {"cluster": "proxy", "user": "user", "namespace": self._target.namespace},
                }
            ],
            "current-context": "proxy",
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config))
        return path

    def _add(self, rule: Rule) -> Rule:
        self._rules.append(rule)
        return rule

    def _rule(self, call: Call, event: str | None = None) -> Rule | None:
        return next((rule for rule in self._rules if rule.takes(call, event)), None)

    # --- passing on ----------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        watch = request.query.get("watch") in ("true", "1")
        call = call_of(request.method, request.path, watch=watch)
        rule = self._rule(call)
        fault = rule.fault if rule else None
        body = await request.read()
        if isinstance(fault, Delay):
            await asyncio.sleep(fault.seconds)
        elif isinstance(fault, Hold) and not fault.after:
            await fault.wait(call)
        failure = fault if isinstance(fault, Refuse | Cut) else None
        if failure and not failure.after:
            return self._fail(request, call, failure)
        async with self._forward(request, body) as answer:
            if failure:
                await answer.read()
                return self._fail(request, call, failure)
            self.calls.append((call, answer.status))
            if isinstance(fault, Hold) and fault.after and answer.status < 300:
                await fault.wait(call)
                if request.transport is None:
                    return web.Response()  # the client was killed meanwhile
            if call.verb == "watch" and answer.status == 200:
                return await self._watch(request, call, answer)
            return await self._copy(request, answer)

    def _forward(self, request: web.BaseRequest, body: bytes) -> aiohttp.client._RequestContextManager:
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        headers["Accept-Encoding"] = "identity"
        tls = self._own_tls
        if foreign := request.headers.get("Authorization"):
            headers["Authorization"] = foreign
            tls = self._their_tls  # a client certificate of ours would win over their token
        else:
            headers.update(self._own_headers)
        return self._upstream.request(
            request.method,
            URL(self._target.server + request.raw_path, encoded=True),
            headers=headers,
            data=body or None,
            ssl=tls or True,
            server_hostname=self._target.server_name,
            timeout=_ENDLESS,
            allow_redirects=False,
        )

    async def _copy(self, request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        """Piece by piece: a followed log must arrive as it is written."""
        response = await _head(request, answer)
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        return response

    async def _watch(
        self, request: web.BaseRequest, call: Call, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        entry = (request, call)
        self._watches.append(entry)
        try:
            response = await _head(request, answer)
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    passed = await self._event(request, call, line)
                    if passed is None:
                        return response
                    if passed:
                        await response.write(passed + b"\n")
                    if passed and passed is not line:
                        return response  # an ERROR event is the last
            return response
        except ConnectionError:
            return web.Response()  # the client has gone, or `cut_watches` was called
        finally:
            self._watches[:] = [other for other in self._watches if other is not entry]

    async def _event(self, request: web.BaseRequest, call: Call, line: bytes) -> bytes | None:
        """What to send for an event: itself, nothing (b""), an ERROR; None: the watch was cut."""
        event = json.loads(line)
        meta = event["object"].get("metadata") or {}
        about = Call("watch", call.resource, meta.get("namespace", ""), meta.get("name", ""))
        rule = self._rule(about, event["type"])
        fault = rule.fault if rule else None
        if isinstance(fault, Delay):
            await asyncio.sleep(fault.seconds)
        elif isinstance(fault, Hold):
            await fault.wait(about)
        elif isinstance(fault, Hide):
            return b""
        elif isinstance(fault, ErrorEvent):
            return json.dumps(
                {"type": "ERROR", "object": _status(fault.code, fault.reason, "fault")}
            ).encode()
        elif isinstance(fault, Cut):
            _abort(request)
            return None
        return line

    def _fail(self, request: web.BaseRequest, call: Call, fault: Refuse | Cut) -> web.Response:
        if isinstance(fault, Cut):
            self.calls.append((call, 0))
            _abort(request)
            return web.Response()
        self.calls.append((call, fault.code))
        headers = {"Retry-After": str(fault.retry_after)} if fault.retry_after is not None else None
        body = _status(fault.code, fault.reason, fault.message)
        return web.json_response(body, status=fault.code, headers=headers)

    def _served_tls(self) -> ssl.SSLContext | None:
        if self._authority is None:
            return None
        pair = self._authority.issue("fault-proxy", address=_HOST)
        return server_context(pair)


async def _head(request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    passed = {name: answer.headers[name] for name in _ANSWERED if name in answer.headers}
    response = web.StreamResponse(status=answer.status, headers=passed)
    await response.prepare(request)
    return response


def _abort(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
