"""What a guard reports: its loss, or a release request. Any thread may read it."""

from __future__ import annotations

import asyncio
import threading
from typing import Callable, Generic, List, Optional, TypeVar

T = TypeVar("T")


class Report(Generic[T]):
    """A value that may come. `get` and `is_set` compare the clock on each call."""

    def __init__(self, read: Callable[[], Optional[T]]) -> None:
        self._read = read
        self._mutex = threading.Lock()
        self._is_over = False
        self._callbacks: List[Callable[[], None]] = []

    def get(self) -> Optional[T]:
        """The value, or `None`."""
        return self._read()

    def is_set(self) -> bool:
        return self.get() is not None

    def _when_over(self, callback: Callable[[], None]) -> None:
        """Calls back once, on any thread, when the value has come, or can no longer come."""
        with self._mutex:
            if not self._is_over:
                return self._callbacks.append(callback)
        callback()

    def _forget(self, callback: Callable[[], None]) -> None:
        with self._mutex:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

    def _finish(self) -> None:
        """The value has come, or can no longer come."""
        with self._mutex:
            self._is_over = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class Signal(Report[T]):
    """A report to a thread."""

    def wait(self, timeout: Optional[float] = None) -> Optional[T]:
        """Waits for the value. `None` after the timeout, or if the guard was released first."""
        if (value := self.get()) is not None:
            return value
        event = threading.Event()
        self._when_over(event.set)
        try:
            if self.get() is None:
                event.wait(timeout)
            return self.get()
        finally:
            self._forget(event.set)


class AsyncSignal(Report[T]):
    """A report to a task."""

    async def wait(self) -> Optional[T]:
        """Waits for the value. `None` if the guard was released first."""
        if (value := self.get()) is not None:
            return value
        loop = asyncio.get_running_loop()
        event = asyncio.Event()

        def wake() -> None:
            call_soon(loop, event.set)

        self._when_over(wake)
        try:
            if self.get() is None:
                await event.wait()
            return self.get()
        finally:
            self._forget(wake)


def call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Calls back on another event loop, unless it is closed."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        pass
