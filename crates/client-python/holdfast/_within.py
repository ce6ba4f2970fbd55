"""A time limit that loses no cancellation.

`asyncio.wait_for` before Python 3.12 returns the result if a cancellation and the result come together. The caller then
never learns that it was cancelled.
"""

from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable, Optional, Set, TypeVar

from .errors import Loss, Lost

T = TypeVar("T")


async def within(
    timeout: float,
    work: Awaitable[T],
    discard: Optional[Callable[[T], None]] = None,
    stop: "Optional[asyncio.Future[None]]" = None,
) -> T:
    """The result of the work, or raises `asyncio.TimeoutError` and cancels it. `discard` gets a result that is too late.

    `stop` ends the time early.
    """
    task = asyncio.ensure_future(work)
    waits: Set["asyncio.Future[Any]"] = {task} if stop is None else {task, stop}
    try:
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise asyncio.TimeoutError
    except BaseException:
        _abandon(task, discard)
        raise


async def unless_lost(end: "asyncio.Future[Loss]", work: Awaitable[T]) -> T:
    """The result of the work. Raises the loss that resolves `end` before."""
    task = asyncio.ensure_future(work)
    try:
        waits: Set["asyncio.Future[Any]"] = {task, end}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Lost(end.result())
        return task.result()
    finally:
        task.cancel()


def _abandon(task: "asyncio.Future[T]", discard: Optional[Callable[[T], None]]) -> None:
    def finished(task: "asyncio.Future[T]") -> None:
        if not task.cancelled() and task.exception() is None and discard:
            discard(task.result())

    task.cancel()
    task.add_done_callback(finished)
