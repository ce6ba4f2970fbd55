"""The daemon thread that runs the calls and renewals of all clients of a process, on a separate event loop.

A caller that blocks its thread or its event loop cannot stop the renewals. After a fork, the child starts another engine
at its first call; it never touches the connections of its parent.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import threading
from concurrent.futures import Future
from typing import Any, Callable, Coroutine, List, Optional, Set, TypeVar

T = TypeVar("T")

_STOP_TIMEOUT = 1.0


class Engine:
    """A thread with an event loop, which ends with the process."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self.loop = asyncio.SelectorEventLoop(self._selector)
        # The event loop refers to its tasks only weakly.
        self._tasks: Set["asyncio.Task[Any]"] = set()
        self._thread = threading.Thread(target=self._run, name="holdfast", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def submit(
        self, work: Coroutine[Any, Any, T], undelivered: Optional[Callable[[T], None]] = None, is_release: bool = False
    ) -> "Future[T]":
        """Runs a coroutine on the engine. Cancelling the future cancels the coroutine, but a release begins in any case.

        If the coroutine has a result that its cancelled future cannot take, `undelivered` gets it, on the engine.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a callback of holdfast called a blocking method: use another thread")
        future: "Future[T]" = Future()

        def start() -> None:
            if future.cancelled() and not is_release:
                return work.close()
            task = self.start(work)
            task.add_done_callback(finished)
            future.add_done_callback(lambda done: done.cancelled() and self.loop.call_soon_threadsafe(task.cancel))

        def finished(task: "asyncio.Task[T]") -> None:
            is_wanted = future.set_running_or_notify_cancel()
            if task.cancelled():
                if is_wanted:
                    future.set_exception(asyncio.CancelledError())
            elif error := task.exception():
                if is_wanted:
                    future.set_exception(error)
            elif is_wanted:
                future.set_result(task.result())
            elif undelivered:
                undelivered(task.result())

        self.loop.call_soon_threadsafe(start)
        return future

    def start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Runs a coroutine to its end, also if nobody refers to its task. Called on the engine's thread."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def give_up(self, future: "Future[T]", undelivered: Optional[Callable[[T], None]] = None) -> None:
        """Cancels a coroutine whose caller is gone. If it is too late for that, `undelivered` gets the result."""
        if not future.cancel() and undelivered and not future.exception():
            self.loop.call_soon_threadsafe(undelivered, future.result())

    def stop(self) -> None:
        """Ends the thread, at the end of the process."""
        asyncio.run_coroutine_threadsafe(self._cancel_all(), self.loop)
        self._thread.join(_STOP_TIMEOUT)
        if not self._thread.is_alive():
            self.loop.close()

    async def _cancel_all(self) -> None:
        # The end of a task may start another one, e.g. a release.
        for _ in range(2):
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            if others:
                await asyncio.wait(others, timeout=_STOP_TIMEOUT / 4)
        self.loop.stop()

    def leave_behind(self) -> List[Any]:
        """Separates a forked child from the engine of its parent. Returns what must stay referenced.

        Both processes share the open selector of the system, so the child closes its copy and gets an empty one. Nothing
        that runs at the end of an object of the parent's engine can then change the parent's connections.
        """
        kept = [self, *self._selector.get_map().values()]
        self._selector.close()
        selectors.DefaultSelector.__init__(self._selector)
        return kept


_lock = threading.Lock()
_current: Optional[Engine] = None
_of_parents: List[Any] = []


def current() -> Engine:
    """The engine of this process."""
    global _current
    with _lock:
        if _current is None:
            _current = Engine()
        return _current


def is_current(engine: Engine) -> bool:
    """Whether the engine belongs to this process."""
    return engine is _current


def stop() -> None:
    """Ends the engine at the end of the process. A later call would start another one."""
    global _current
    with _lock:
        engine, _current = _current, None
    if engine:
        engine.stop()


def _after_fork() -> None:
    global _lock, _current
    _lock = threading.Lock()
    if _current is not None:
        _of_parents.extend(_current.leave_behind())
        _current = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
