"""An acquire: repeats its call until the locks are granted, the wait ends or the session ends.

A copy of the call keeps the queue entry, because it has the same attempt. An acquire that fails or is cancelled gives its
attempt up in the background, unless the cluster certainly has no entry of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Awaitable, Callable, Dict, List, Optional, Set, TypeVar

from . import _clock, codes
from ._calls import WAIT_MAX, Call, with_fields
from ._entry import QueueEntry
from ._hold import GRANT, Grant, HeldLocks, Hold
from ._lease import HoldLimits
from ._numbers import numbers
from ._request import LockRequest
from ._retry import Delivery
from ._send import whole_millis
from ._session import Session
from ._within import within
from .errors import (
    Busy,
    Error,
    Loss,
    Lost,
    Rejected,
    Unavailable,
    UnexpectedResponse,
    is_hold_gone,
    is_uncertain,
    is_unclear,
    newest_attempt,
    retry_at,
)
from .metrics import Metrics, report

T = TypeVar("T")

#: An acquire that waits for nothing tries this many sessions.
_FRESH_SESSIONS_MAX = 3


class WaitLimit:
    """The end of a wait, on the clock of the event loop; `None` waits without bound."""

    def __init__(self, wait: Optional[float]) -> None:
        self._until = None if wait is None else asyncio.get_running_loop().time() + wait

    def next_call(self, not_before: float = 0.0) -> float:
        """The wait of the next call, in whole milliseconds."""
        if self._until is None:
            return WAIT_MAX
        now = max(asyncio.get_running_loop().time(), not_before)
        return whole_millis(max(min(self._until - now, WAIT_MAX), 0.0))

    def is_over(self, error: Optional[Error] = None) -> bool:
        """Whether no time is left, or no time when the call that failed may be sent again."""
        return self.next_call(retry_at(error) if error else 0.0) == 0


SessionFor = Callable[[Optional[float]], Awaitable[Session]]


async def acquire(session_for: SessionFor, request: LockRequest, limit: WaitLimit, metrics: Metrics) -> HeldLocks:
    """Acquires the locks, and measures that."""
    began = _clock.now()
    try:
        held = await _acquire_in_live_session(session_for, request, limit)
    except (Error, asyncio.CancelledError) as error:
        for lock in request.locks:
            report(metrics.acquire_failed, lock, error)
        raise
    for lock in request.locks:
        report(metrics.acquired, lock, _clock.now() - began)
    return held


async def _acquire_in_live_session(session_for: SessionFor, request: LockRequest, limit: WaitLimit) -> HeldLocks:
    """Acquires the locks on the client's session, or on a new one if it ended before the grant."""
    attempts = 0
    while True:
        attempts += 1
        session = await session_for(request.ttl)
        try:
            return await _Acquire(session, request, limit).run()
        except Lost as lost:
            # The session ended while it was idle, or while the entry was queued. The caller held nothing.
            may_reopen = session.is_own and not session.is_closed
            if may_reopen and (attempts < _FRESH_SESSIONS_MAX or not limit.is_over()):
                continue
            if lost.cause == "not-renewed":
                raise Unavailable(lost.loss.reason or "no renewal was answered") from None
            raise


class _Acquire:
    """One attempt, and those that follow if another process of the session has a larger number."""

    def __init__(self, session: Session, request: LockRequest, limit: WaitLimit, attempt: Optional[int] = None) -> None:
        self._session, self._request, self._limit = session, request, limit
        attempt = numbers.after() if attempt is None else attempt
        self._entries = [QueueEntry(lock, request.owner, attempt, request.is_sharded) for lock in request.locks]
        #: Whether the cluster certainly has no entry of this attempt.
        self._leaves_nothing = True

    async def run(self) -> HeldLocks:
        session = self._session
        session.use()
        for entry in self._entries:
            session.entries.add(entry)
        session.limits_changed.set()
        with session.pending():
            try:
                return await self._repeat()
            except BaseException:
                if self._leaves_nothing:
                    session.entries.remove(self._entries)
                else:
                    session.release_in_background(self._entries)
                session.unuse()
                raise

    async def _repeat(self) -> HeldLocks:
        is_granted_elsewhere = in_doubt = False
        while True:
            self._leaves_nothing = False
            delivery = await self._send(self._limit.next_call(), is_granted_elsewhere)
            if delivery is None:
                is_granted_elsewhere = in_doubt = True
                continue
            is_granted_elsewhere = False
            in_doubt |= delivery.in_doubt
            error = delivery.error
            if error is None:
                return self._granted(delivery)
            if self._may_repeat(error):
                is_granted_elsewhere = await is_granted_before_retry(self._session.ending, error, self._entries[0])
                in_doubt |= is_granted_elsewhere
                continue
            newest = newest_attempt(error)
            if newest is None:
                self._leaves_nothing = not (in_doubt or is_unclear(error))
                raise error
            in_doubt = False
            self._renumber(newest)

    def _renumber(self, newest: int) -> None:
        """Continues with a larger number than that of another process of the session."""
        attempt = numbers.after(newest)
        for entry in self._entries:
            entry.attempt = attempt

    def _call(self, wait: float) -> Call:
        return self._request.call(self._session.id, self._entries[0].attempt, wait)

    def _may_repeat(self, error: Error) -> bool:
        """Whether the queue entry may still exist, and the wait goes on.

        The node died, held the call for the maximum time, has no leader, or the token file may have another token.
        """
        if self._limit.is_over(error):
            return False
        is_old_token = self._session.calls.nodes.may_get_token(error)
        return is_uncertain(error) or is_old_token or error.code == codes.WAIT_TIMEOUT

    async def _send(self, wait: float, is_granted_elsewhere: bool) -> Optional[Delivery]:
        """Sends the call once. `None` if a renewal listed the locks as held: the node of the call is behind or frozen."""
        session = self._session
        return await deliver_until(session.ending, session, self._call(wait), is_granted_elsewhere, self._entries[0])

    def _granted(self, delivery: Delivery) -> HeldLocks:
        """Turns the grants into holds, if the session is alive."""
        answer = delivery.checked()
        bodies = answer.json(grants=list)["grants"] if len(self._entries) > 1 else [answer.json()]
        grants = [with_fields(body, **GRANT) for body in bodies]
        by_lock = {grant["lock"]: grant for grant in grants}
        if self._request.is_sharded:
            self._entries[0].granted_as(grants[0]["lock"])
        if set(by_lock) != {entry.lock for entry in self._entries}:
            raise UnexpectedResponse("the answer has other locks than the request")
        for grant in grants:
            self._session.acknowledge(delivery.counted_from(grant), grant.get("expires_in_ms") or 0)
        holds = [self._hold(entry, by_lock[entry.lock], delivery) for entry in self._entries]
        self._session.limits_changed.set()
        return HeldLocks(self._session, holds)

    def _hold(self, entry: QueueEntry, grant: Dict[str, Any], delivery: Delivery) -> Hold:
        request, progress = self._request, self._request.progress_timeout
        self._session.entries.follow_upgrade(grant)
        entry.limits = HoldLimits(progress, None if progress is None else _clock.now() + progress)
        entry.granted(grant, request.max_hold, delivery.counted_from(grant))
        # The sender chose the mode of a transferred hold.
        mode = request.mode if entry.attempt else grant["mode"]
        return Hold(self._session, entry, Grant.of(grant, mode), request)


class _Adoption(_Acquire):
    """The guard of a hold that no attempt of this client acquired. Its call changes nothing, and never acquires the lock."""

    def __init__(self, session: Session, request: LockRequest, token: int) -> None:
        super().__init__(session, request, WaitLimit(0.0), attempt=0)
        self._by = numbers.after()
        #: The hold to release if the caller gets no guard.
        self._entries[0].token = token

    def _renumber(self, newest: int) -> None:
        self._by = numbers.after(newest)

    def _call(self, wait: float) -> Call:
        return self._request.change_call(self._session.id, 0, self._by, {}, wait)


async def adopt(session: Session, request: LockRequest, token: int) -> Optional[HeldLocks]:
    """The guard of the transferred hold that had this token; `None` if the session no longer has it."""
    try:
        return await _Adoption(session, request, token).run()
    except (Busy, Rejected) as error:
        if isinstance(error, Busy) or is_hold_gone(error):
            return None
        raise


async def deliver_until(
    end: "asyncio.Future[Loss]", session: Session, call: Call, is_granted_elsewhere: bool, entry: QueueEntry
) -> Optional[Delivery]:
    """Delivers a call of an entry. Raises the loss that resolves `end`; `None` if a renewal listed the entry's grant."""
    return await _unless_granted(end, session.deliver(call, is_granted_elsewhere), entry)


async def is_granted_before_retry(
    end: "asyncio.Future[Loss]",
    error: Error,
    entry: QueueEntry,
    at_least: float = 0.0,
    stop: "Optional[asyncio.Future[None]]" = None,
) -> bool:
    """Waits until the call that failed may be sent again, or the hold is lost. True as soon as a renewal listed the grant.

    Raises the loss that resolves `end`. `stop` ends the time early.
    """

    async def pause() -> bool:
        left = max(retry_at(error) - asyncio.get_running_loop().time(), at_least)
        with contextlib.suppress(asyncio.TimeoutError):
            await within(max(left, 0.0), entry.lost.wait(), stop=stop)
        return True

    return await _unless_granted(end, pause(), entry) is None


async def _unless_granted(end: "asyncio.Future[Loss]", work: Awaitable[T], entry: QueueEntry) -> Optional[T]:
    task = asyncio.ensure_future(work)
    granted = asyncio.ensure_future(entry.granted_elsewhere.wait())
    try:
        waits: Set["asyncio.Future[Any]"] = {task, granted, end}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if end.done():
            raise Lost(end.result())
        entry.granted_elsewhere.clear()
        return None
    finally:
        task.cancel()
        granted.cancel()
