"""The two tasks of a session: one renews it while it has users, one reports losses to the guards.

The first task keeps one keepalive parked at a node. The call renews the session, and returns as soon as the cluster
grants, takes or requests a lock of the session. If no node accepts a parked call, the task renews at a third of the
time-to-live with plain keepalives, and tries again. Bounds: one call in flight.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Dict, Optional, Set

from . import _clock
from ._entry import QueueEntry, Stage
from ._events import SessionPoll
from ._lease import ENDED_BY_CLIENT
from ._numbers import jitter
from ._retry import Delivery
from ._session import SESSION, Session, log
from ._within import within
from .errors import Error, Loss, Lost
from .metrics import report

#: Timers stand still while the machine is suspended, so the client compares the deadlines with the clock this often.
_CLOCK_CHECK = 0.5


async def renew_while_used(session: Session) -> None:
    """Runs until the session is over, or can have no more users."""
    poll = SessionPoll(session)
    while True:
        session.changed.clear()
        now = _clock.now()
        is_idle = session.idle.is_set()
        if is_idle and not session.is_in_use:
            return await _close(session)
        if loss := session.loss(now):
            return await _close_after_loss(session, loss)
        if is_idle:
            wake = session.lease.deadline
        elif now >= poll.due:
            await _poll(session, poll)
            continue
        elif now >= session.lease.renew_at:
            await _renew(session, poll)
            continue
        else:
            wake = min(session.lease.renew_at, session.lease.deadline, poll.due)
        await _wait(session.changed, wake - now)


async def _close_after_loss(session: Session, loss: Loss) -> None:
    """Closes a lost session when its last user is gone, because a node may still renew it for a waiting call."""
    session.end(loss)
    if session.is_own and not session.is_closed:
        await session.idle.wait()
        await _close(session)


async def _close(session: Session) -> None:
    if session.is_own:
        try:
            await session.calls.close_session(session.name, session.incarnation)
        except Error:
            pass  # The session expires after its time-to-live.
    else:
        await session.settled()
    session.end(Loss("session-ended"))


async def _poll(session: Session, poll: SessionPoll) -> None:
    """Parks a keepalive until it is answered, the session is over, or the last user is gone."""
    known = session.entries.held()
    wait = poll.park_time(session.lease.park_time(jitter()))
    left = session.lease.deadline - _clock.now()
    call = asyncio.ensure_future(session.calls.park_keep_alive(*session.id, poll.since, wait, left))
    idle = asyncio.ensure_future(session.idle.wait())
    try:
        waits: Set["asyncio.Future[Any]"] = {call, idle, session.lost}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not call.done():
            return
        delivery = call.result().expecting(**SESSION)
    finally:
        call.cancel()
        idle.cancel()
    if delivery.error and not isinstance(delivery.error, Lost):
        poll.poll_failed()
        await _renew(session, poll)
    elif (body := _acknowledged(session, delivery)) is not None:
        poll.deliver(known, body, session.lease.held, delivery.counted_from(body))


async def _renew(session: Session, poll: SessionPoll) -> None:
    known = session.entries.held()
    delivery = await session.calls.keep_alive(*session.id, session.lease.deadline - _clock.now())
    delivery = delivery.expecting(**SESSION)
    if delivery.error and not isinstance(delivery.error, Lost):
        log.debug("renewal of session %s failed: %s", session.name, delivery.error)
        session.renewal_failed(delivery.error)
        report(session.metrics.renewed, session.name, False)
    elif (body := _acknowledged(session, delivery)) is not None:
        poll.reconcile(known, body.get("holds", []), session.lease.held)


def _acknowledged(session: Session, delivery: Delivery) -> Optional[Dict[str, Any]]:
    """Extends the lease by the answer of a keepalive; `None` if the session is over."""
    try:
        body = delivery.checked().json()
        session.acknowledge(delivery.sent, body.get("waited_ms", 0) + (body.get("expires_in_ms") or 0))
    except Lost as lost:
        session.end(lost.loss)
        return None
    except Error as error:
        session.renewal_failed(error)
        report(session.metrics.renewed, session.name, False)
        return None
    report(session.metrics.renewed, session.name, True)
    return body


async def watch_losses(session: Session) -> None:
    """Reports each loss to its guard, and ends each hold that the client has ended but the cluster would keep."""
    while True:
        session.limits_changed.clear()
        over = session.loss()
        nearest = report_losses(session)
        if over:
            return session.report_end()
        pause = nearest - _clock.now()
        await _wait(session.limits_changed, min(pause, _CLOCK_CHECK) if session.entries.all() else pause)


def report_losses(session: Session) -> float:
    """Reports each new loss. Returns the next deadline."""
    now = _clock.now()
    over = session.loss(now)
    nearest = session.lease.deadline
    for entry in session.entries.all():
        if entry.is_reported or entry.stage not in (Stage.HELD, Stage.CONVERTING):
            continue
        check = entry.limits.check(now)
        loss = check if isinstance(check, Loss) else over
        if loss:
            _report(session, entry, loss)
        elif check is not None and not isinstance(check, Loss):
            nearest = min(nearest, check)
    return nearest


def _report(session: Session, entry: QueueEntry, loss: Loss) -> None:
    entry.lose(loss)
    entry.is_reported = True
    entry.lost.set()
    level = logging.DEBUG if session.is_closed else logging.WARNING
    log.log(level, 'lock "%s" of session %s is lost: %s', entry.lock, session.name, loss)
    if not session.is_closed:
        report(session.metrics.lost, entry.lock, loss.cause)
    if entry.on_lost:
        entry.on_lost()
    if loss.cause in ENDED_BY_CLIENT and entry.stage is not Stage.LEAVING:
        session.release_in_background([entry])


async def _wait(event: asyncio.Event, pause: float) -> None:
    """Waits for the event, at most for `pause`."""
    try:
        await within(max(pause, 0.001), event.wait())
    except asyncio.TimeoutError:
        pass
