"""What differs in the blocking API; `_aio.py` has the same names for the asyncio API."""

from __future__ import annotations

import threading
from typing import Any, Callable, Coroutine, Optional, TypeVar

from ._api import ClientBase, Undelivered
from ._core import Core
from ._signal import Report, Signal
from .errors import Loss

__all__ = ["Body", "Caller", "Signal", "caller_id"]

T = TypeVar("T")


class Caller(ClientBase):
    """Runs calls on the engine while the caller's thread waits."""

    def _call(
        self,
        work: Callable[[Core], Coroutine[Any, Any, T]],
        undelivered: Undelivered[T] = None,
        is_release: bool = False,
    ) -> T:
        future = self._submit(work, undelivered, is_release)
        try:
            return future.result()
        except BaseException:
            self._give_up(future, undelivered)
            raise

    def _close(self) -> None:
        closing = self._begin_close()
        if closing:
            closing.result()


def caller_id() -> int:
    """Identifies the thread."""
    return threading.get_ident()


class Body:
    """The body of `with`. A thread cannot be cancelled, so a body that runs long checks the lock with `ensure()`."""

    def __init__(self, lost: Report[Loss]) -> None:
        pass

    def end(self, error: Optional[BaseException]) -> Optional[BaseException]:
        return error
