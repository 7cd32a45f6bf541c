"""Runs asynchronous calls for synchronous callers, on one event loop in one thread for all clients."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar, cast

from fournos.client.connection import Handles, W

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")
_END: Final = object()


class Loop:
    """An event loop in a thread of its own, started by the first call.

    The caller's thread may already run an event loop, as notebooks do.  That loop is blocked for the time of
    the call, but not used.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begins anew in a forked process: it has neither the loop's thread nor one that frees the lock."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Runs the call and returns its result.

        When the caller is interrupted (Ctrl-C) the call is cancelled, and has ended before this method
        raises.  Raises RuntimeError if called from the loop's own thread.
        """
        loop = self._started()
        if threading.current_thread() is self._thread:
            call.close()
            raise RuntimeError("a synchronous call within an asynchronous one: use AsyncClient there")
        over = threading.Event()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            tasks.append(loop.create_task(call))
            tasks[0].add_done_callback(lambda _: over.set())

        def cancel() -> None:
            tasks[0].cancel()

        loop.call_soon_threadsafe(start)
        try:
            over.wait()
        except BaseException:
            loop.call_soon_threadsafe(cancel)
            over.wait()
            _ = tasks[0].cancelled() or tasks[0].exception()  # retrieved, so that asyncio does not warn
            raise
        return tasks[0].result()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="fournos-client", daemon=True
                )
                self._thread.start()
            return self._loop


LOOP: Final = Loop()
os.register_at_fork(after_in_child=LOOP.forget)


class Facade(Protocol):
    """A synchronous wrapper of an asynchronous object."""

    _async: Any


def parameters_of(
    method: Callable[Concatenate[Any, P], Any],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Decorates a method that takes and hands on the parameters of another one: it has their signature."""

    def decorate(own: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        own.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
        return own

    return decorate


def one_of(
    method: Callable[Concatenate[Any, P], Awaitable[T]], face: Callable[[T], S]
) -> Callable[Concatenate[Any, P], S]:
    """Returns a facade's method that blocks on the asynchronous method and returns `face` of its result."""

    @functools.wraps(method)
    def call(self: Facade, /, *args: P.args, **kwargs: P.kwargs) -> S:
        return face(LOOP.run(cast(Coroutine[Any, Any, T], method(self._async, *args, **kwargs))))

    return call


def blocking(
    method: Callable[Concatenate[Any, P], Awaitable[T]],
) -> Callable[Concatenate[Any, P], T]:
    """As `one_of`, for a method whose result is the same for both."""
    return one_of(method, lambda result: result)


def many_of(
    method: Callable[Concatenate[Any, P], Awaitable[Handles[Any]]], face: Callable[[Any], W]
) -> Callable[Concatenate[Any, P], Handles[W]]:
    """As `one_of`, for a method that returns a list of handles: wraps each in `face`."""
    return one_of(method, lambda handles: handles.mapped(face))


async def _next(items: AsyncGenerator[T, None]) -> T | object:
    return await anext(items, _END)


def iterating(
    method: Callable[Concatenate[Any, P], AsyncIterator[T]],
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """Returns a facade's method that iterates over the asynchronous generator, one item at a time.

    The asynchronous generator is closed when the caller ends the iteration.
    """

    @functools.wraps(method)
    def iterate(self: Facade, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        items = cast(AsyncGenerator[T, None], method(self._async, *args, **kwargs))
        try:
            while True:
                item = LOOP.run(_next(items))
                if item is _END:
                    return
                yield cast(T, item)
        finally:
            # The loop's thread no longer runs during interpreter shutdown: the call would never return.
            if not sys.is_finalizing():
                LOOP.run(items.aclose())

    return iterate
