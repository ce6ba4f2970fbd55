"""Tasks of Celery that run once at a time, over all workers.

    @app.task(base=SingletonTask, lock="import:{customer}", on_busy="skip")
    def import_orders(customer):
        ...
        import_orders.guard.ensure()

The setting `holdfast` of the application has the options of `holdfast.Client`: `app.conf.holdfast = {"addresses": [...]}`.
"""

from __future__ import annotations

import inspect
import threading
from typing import Any, Dict, Optional

from celery import Task
from celery.exceptions import Ignore

from .. import Busy, Client, Guard, InvalidArgument

_clients: Dict[int, Client] = {}
_mutex = threading.Lock()
_running = threading.local()

_ON_BUSY = ("skip", "retry", "fail")


def client(app: Any) -> Client:
    """The client of an application. A forked worker uses it with a separate session."""
    with _mutex:
        if id(app) not in _clients:
            _clients[id(app)] = Client(**(app.conf.get("holdfast") or {}))
        return _clients[id(app)]


class SingletonTask(Task):  # type: ignore[misc]
    """A task that holds a lock while it runs.

    If its worker dies, the lock is free after the time-to-live. The next task then has a larger token. Renewals run on a
    thread, so a task that computes keeps its lock. Nothing interrupts a task whose lock is lost: call `self.guard.ensure()`
    before each write.
    """

    abstract = True
    #: The lock. `{argument}` stands for an argument of the task. By default the name of the task.
    lock: Optional[str] = None
    #: The time in the queue of the lock, in seconds. A waiting task occupies its worker.
    lock_wait: float = 0.0
    #: Other options of the lock, such as `max_hold`.
    lock_options: Dict[str, Any] = {}
    #: If the lock is busy: `skip` ignores the task, `retry` sends it again later, `fail` raises `holdfast.Busy`.
    on_busy: str = "skip"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.on_busy not in _ON_BUSY:
            raise InvalidArgument(f"on_busy is {self.on_busy!r}: use one of {', '.join(_ON_BUSY)}")
        name = self.lock_name(args, kwargs)
        try:
            guard = client(self.app).lock(name, wait=self.lock_wait, **self.lock_options).acquire()
        except Busy as busy:
            return self._busy(busy)
        before = getattr(_running, "guard", None)
        with guard:
            _running.guard = guard
            try:
                return super().__call__(*args, **kwargs)
            finally:
                _running.guard = before

    @property
    def guard(self) -> Guard:
        """The guard of the task that runs on this thread."""
        guard: Optional[Guard] = getattr(_running, "guard", None)
        if guard is None:
            raise InvalidArgument("no task with a lock runs on this thread")
        return guard

    def lock_name(self, args: Any, kwargs: Any) -> str:
        """The lock of a call."""
        if self.lock is None:
            return f"celery/{self.name}"
        bound = inspect.signature(self.run).bind(*args, **kwargs)
        bound.apply_defaults()
        return self.lock.format(**bound.arguments)

    def _busy(self, busy: Busy) -> Any:
        if self.on_busy == "fail":
            raise busy
        if self.on_busy == "retry":
            raise self.retry(exc=busy)
        raise Ignore
