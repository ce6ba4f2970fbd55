"""A time limit that loses no cancellation.

`asyncio.wait_for` before Python 3.12 returns the result if a cancellation and the result come together. The caller then
never learns that it was cancelled.
"""

from __future__ import annotations

import asyncio
from typing import Awaitable, Callable, Optional, TypeVar

T = TypeVar("T")


async def within(timeout: float, work: Awaitable[T], discard: Optional[Callable[[T], None]] = None) -> T:
    """The result of the work, or raises `asyncio.TimeoutError` and cancels it. `discard` gets a result that is too late."""
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout)
        if done:
            return task.result()
        raise asyncio.TimeoutError
    except BaseException:
        _abandon(task, discard)
        raise


def _abandon(task: "asyncio.Future[T]", discard: Optional[Callable[[T], None]]) -> None:
    def finished(task: "asyncio.Future[T]") -> None:
        if not task.cancelled() and task.exception() is None and discard:
            discard(task.result())

    task.cancel()
    task.add_done_callback(finished)
