"""What differs in the asyncio API; `_sync.py` has the same names for the blocking API."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Callable, Coroutine, Optional, TypeVar

from ._api import ClientBase, Undelivered
from ._core import Core
from ._signal import AsyncSignal as Signal
from ._signal import Report, call_soon
from .errors import Loss

__all__ = ["Body", "Caller", "Signal", "caller_id"]

T = TypeVar("T")


class Caller(ClientBase):
    """Runs calls on the engine while the caller's event loop goes on."""

    async def _call(
        self,
        work: Callable[[Core], Coroutine[Any, Any, T]],
        undelivered: Undelivered[T] = None,
        is_release: bool = False,
    ) -> T:
        future = self._submit(work, undelivered, is_release)
        try:
            return await asyncio.wrap_future(future)
        except BaseException:
            self._give_up(future, undelivered)
            raise

    async def _close(self) -> None:
        closing = self._begin_close()
        if closing:
            await asyncio.wrap_future(closing)


def caller_id() -> int:
    """Identifies the task."""
    return id(asyncio.current_task())


class Body:
    """The body of `async with`: its task is cancelled when the lock is lost, as by `asyncio.timeout`."""

    def __init__(self, lost: Report[Loss]) -> None:
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._lost = lost
        self._is_over = False
        self._has_cancelled = False
        lost._when_over(self._wake)

    def end(self, error: Optional[BaseException]) -> Optional[BaseException]:
        """Returns the error of the body, unless it is the cancellation by the loss."""
        self._is_over = True
        self._lost._forget(self._wake)
        if not self._has_cancelled or self._task is None:
            return error
        is_cancelled_by_others = sys.version_info >= (3, 11) and self._task.uncancel() > 0
        if isinstance(error, asyncio.CancelledError) and not is_cancelled_by_others:
            return None
        return error

    def _wake(self) -> None:
        call_soon(self._loop, self._cancel)

    def _cancel(self) -> None:
        if not self._is_over and self._lost.is_set() and self._task is not None:
            self._has_cancelled = self._task.cancel()


