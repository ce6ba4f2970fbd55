"""A session of a client: its lease, its queue entries, and the count of its users.

Guards, acquires in progress and open handles are users. The session is renewed (`_renewal.py`) exactly while it has users,
so the client renews nothing for finished work. Everything here runs on the event loop of the engine; other threads read
`lease` only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Awaitable, Callable, Coroutine, Iterator, Mapping, Optional, Sequence, TypeVar

from . import _clock, _engine
from ._calls import Call, Response
from ._entry import QueueEntries, QueueEntry, Stage, release_call
from ._lease import Acknowledged, Lease, retry_pause
from ._numbers import jitter, numbers
from ._request import SessionId
from ._retry import Delivery
from ._send import Calls, NumberedCalls, answer_of_numbered
from .errors import Error, Loss, Lost, is_uncertain, is_unclear, newest_attempt, retry_at
from ._within import unless_lost, within
from .metrics import Metrics

log = logging.getLogger("holdfast")

T = TypeVar("T")

_IDLE_AFTER = 0.5
#: The fields of a session's body.
SESSION = {"incarnation": int, "holds": list}
#: The loss in a forked child, which must not use the connections of its parent.
FORKED = Loss("session-ended", "the session belongs to the parent process")


class Session:
    """An open session."""

    def __init__(
        self, calls: Calls, name: str, is_own: bool, body: Mapping[str, Any], sent: float, metrics: Metrics
    ) -> None:
        self.calls = calls
        self.engine = _engine.current()
        self.name = name
        #: Whether the client generated the name: no other client uses the session, and it ends with the client.
        self.is_own = is_own
        self.incarnation = int(body["incarnation"])
        self.id = SessionId(name, self.incarnation)
        self.opened_at: Optional[int] = body.get("revision")
        self.lease = Lease.of(Acknowledged(sent, body.get("expires_in_ms", 0) / 1000), jitter())
        self.entries = QueueEntries()
        self.numbered_calls = NumberedCalls()
        self.metrics = metrics
        self.users = 0
        #: Set while the session has no users, a moment after the last one: locks are often taken in sequence.
        self.idle = asyncio.Event()
        self.idle.set()
        #: Whether the client may use the session again.
        self.is_in_use = True
        #: Whether the client has closed the session.
        self.is_closed = False
        #: Set after each change that the renewal or the watch of losses must see.
        self.changed = asyncio.Event()
        self.limits_changed = asyncio.Event()
        self.lost: "asyncio.Future[Loss]" = asyncio.get_running_loop().create_future()
        #: Resolved when every wait must end: the session is over, or the client closes.
        self.ending: "asyncio.Future[Loss]" = asyncio.get_running_loop().create_future()
        #: Resolved, and replaced, when the calls that pause are repeated at once.
        self.pause_end: "asyncio.Future[None]" = asyncio.get_running_loop().create_future()
        self._pending = 0
        self._settled = asyncio.Event()
        self._settled.set()

    @classmethod
    async def open(
        cls, calls: Calls, name: str, is_own: bool, ttl: Optional[float], labels: Mapping[str, str], metrics: Metrics
    ) -> Session:
        delivery = await calls.open_session(name, numbers.after(), ttl, labels)
        if delivery.error and (newest := newest_attempt(delivery.error)) is not None:
            # An earlier session of this name had a larger number.
            delivery = await calls.open_session(name, numbers.after(newest), ttl, labels)
        return cls(calls, name, is_own, delivery.checked().json(**SESSION), delivery.sent, metrics)

    @property
    def is_of_parent(self) -> bool:
        """Whether this process is a forked child of the one that opened the session."""
        return not _engine.is_current(self.engine)

    def loss(self, now: Optional[float] = None) -> Optional[Loss]:
        """The loss; `None` while the session certainly lives."""
        return self.lease.loss(_clock.now() if now is None else now)

    def may_release(self) -> bool:
        """Whether a release may still end a hold: another program may renew a named session that is lost here."""
        loss = self.loss()
        is_kept = not self.is_own and not self.calls.nodes.is_closed
        return loss is None or (loss.cause == "not-renewed" and is_kept)

    async def send_numbered(self, call: Callable[[int], Call]) -> Response:
        """Sends a call that the cluster executes once. Ends the session if the cluster has ended it."""

        async def send(request: int) -> Response:
            return answer_of_numbered(await self.deliver(call(request)))

        return await self.numbered_calls.send(send)

    async def deliver(self, call: Call, is_granted_elsewhere: bool = False) -> Delivery:
        """Delivers an acquire or a change. Ends the session if the cluster has ended it."""
        delivery = await self.calls.deliver_acquire(call, is_granted_elsewhere)
        if isinstance(delivery.error, Lost):
            self.end(delivery.error.loss)
        return delivery

    def acknowledge(self, counted_from: float, held_ms: float) -> None:
        """Extends the lease, or raises the loss if the deadline has passed."""
        now = _clock.now()
        self.lease = self.lease.acknowledge(Acknowledged(counted_from, held_ms / 1000), jitter(), now)
        self.changed.set()
        if loss := self.loss(now):
            raise Lost(loss)

    def renewal_failed(self, error: BaseException) -> None:
        """Stores the error, which the loss reports later, e.g. that the call needs a credential."""
        hint = f" ({error.hint})" if isinstance(error, Error) and error.hint else ""
        self.lease = self.lease.renewal_failed(f"{error}{hint}", _clock.now())

    def end(self, loss: Loss) -> None:
        self.lease = self.lease.end(loss, _clock.now())
        self.report_end()

    def report_end(self) -> None:
        """Resolves `lost`, once the session is over."""
        loss = self.loss()
        if loss and not self.lost.done():
            self.lost.set_result(loss)
            self._end_waits(loss)
            log.debug("session %s is over: %s", self.name, loss)
        self.changed.set()
        self.limits_changed.set()

    def _end_waits(self, loss: Loss) -> None:
        """Ends the waits, and repeats the releases that pause at once."""
        if not self.ending.done():
            self.ending.set_result(loss)
        self.pause_end.set_result(None)
        self.pause_end = self.pause_end.get_loop().create_future()

    async def leave(self, limit: float) -> None:
        """Stops the use of a session that others may use. Its waits leave nothing in the cluster. Its holds stay there."""
        self.is_closed = True
        loss = Loss("session-ended", "the client was closed")
        self._end_waits(loss)
        try:
            await within(limit, self.settled())
        except asyncio.TimeoutError:
            pass  # The entries end with the session.
        self.end(loss)

    async def settled(self) -> None:
        """Returns when all waits and releases in progress are over."""
        await self._settled.wait()

    @contextlib.contextmanager
    def pending(self) -> Iterator[None]:
        """Counts a wait or a release. The release of what a failed wait may have left starts before the end."""
        self._begin()
        try:
            yield
        finally:
            self._end_pending()

    def _begin(self) -> None:
        self._pending += 1
        self._settled.clear()

    def _end_pending(self) -> None:
        self._pending -= 1
        if self._pending == 0:
            self._settled.set()

    async def unless_ending(self, work: Awaitable[T]) -> T:
        """The result of a waiting call. Raises the loss if the wait must end."""
        return await unless_lost(self.ending, work)

    def use(self) -> None:
        self.users += 1
        if self.idle.is_set():
            self.idle.clear()
            self.changed.set()

    def unuse(self) -> None:
        self.users -= 1
        if self.users == 0:
            asyncio.get_running_loop().call_later(_IDLE_AFTER, self._check_idle)

    def _check_idle(self) -> None:
        if self.users == 0:
            self.idle.set()
            self.changed.set()

    def abandon(self) -> None:
        """Records that the client will not use the session again."""
        self.is_in_use = False
        self.changed.set()

    def start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Runs a coroutine in the background."""
        task = self.engine.start(work)
        task.add_done_callback(self._finished)
        return task

    def start_release(self, work: Coroutine[Any, Any, None]) -> None:
        """Releases something in the background."""
        self._begin()
        self.start(work).add_done_callback(lambda _: self._end_pending())

    def _finished(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()):
            log.error("a background task of session %s failed", self.name, exc_info=error)
            self.end(Loss("not-renewed", f"internal error: {error!r}"))

    async def release(self, entries: Sequence[QueueEntry]) -> None:
        """Releases entries of one owner and one attempt. Entries with an uncertain outcome stay listed."""
        for entry in entries:
            entry.stage = Stage.LEAVING
        with self.pending():
            try:
                await self.calls.confirm(release_call(entries, self.name))
            except Error as error:
                if not is_unclear(error):
                    self.entries.remove(entries)
                raise
            self.entries.remove(entries)

    def release_in_background(
        self, entries: Sequence[QueueEntry], confirmed: Callable[[], None] = lambda: None
    ) -> None:
        """Releases entries until the outcome is certain, the cluster has none of them or the client is closed.

        Calls `confirmed` if the cluster confirms the release.
        """
        for entry in entries:
            entry.stage = Stage.LEAVING
        if entries:
            self.use()
            self.start_release(self._release_until_certain(entries, confirmed))

    async def _release_until_certain(self, entries: Sequence[QueueEntry], confirmed: Callable[[], None]) -> None:
        try:
            if await self.until_certain(lambda: self.release(entries)):
                confirmed()
        finally:
            self.entries.remove(entries)
            self.unuse()

    async def until_certain(self, release: Callable[[], Awaitable[None]]) -> bool:
        """Repeats a release until the outcome is certain, the session is over in the cluster or the client is closed.

        Returns whether the cluster has confirmed it.
        """
        wrong_answers = 0
        while self.may_release():
            pause_end = self.pause_end
            try:
                await release()
                return True
            except Error as error:
                if not is_unclear(error):
                    return False
                wrong_answers += not is_uncertain(error)
                pause = retry_pause(wrong_answers) if wrong_answers else 0.0
                until_retry = retry_at(error) - asyncio.get_running_loop().time()
                await asyncio.wait({pause_end}, timeout=max(until_retry, pause))
                if pause_end.done():
                    wrong_answers = 0
        return False

