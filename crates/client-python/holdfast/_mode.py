"""Changing the mode of a held lock without releasing it: up to exclusive, or down to a weaker mode.

Each call names the attempt that it changes and has a separate number, so a late copy of any call converts nothing.
While the mode is unknown, the queue entry is `CONVERTING`, so that its new token does not look like a loss. An upgrade
that ends early restores the old mode, in the background if necessary. A downgrade never waits; the client repeats it
until the cluster confirms it.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import AsyncIterator, Optional

from ._acquire import WaitLimit, deliver_until, is_granted_before_retry
from ._entry import Stage
from ._hold import GRANT, Grant, Hold
from ._lease import RETRY_PAUSE
from ._numbers import numbers
from ._retry import Delivery
from .errors import (
    Busy,
    Error,
    InvalidArgument,
    Loss,
    Lost,
    Rejected,
    Unavailable,
    is_hold_gone,
    is_uncertain,
    is_unclear,
    newest_attempt,
)

_WEAKER = {"exclusive": ("upgradable", "shared"), "upgradable": ("shared",), "shared": ()}


async def upgrade(hold: Hold, wait: Optional[float]) -> None:
    """Becomes exclusive when the shared holders have left, ahead of the queue, and with a new token."""
    limit = WaitLimit(wait)
    async with _next_change(hold) as change:
        if hold.grant.mode != "exclusive":
            await change.upgrade(limit)


async def downgrade(hold: Hold, mode: str) -> None:
    """Changes to a weaker mode immediately, with the same token."""
    async with _next_change(hold) as change:
        # After a rejection the cluster may keep a stronger mode than the guard, so the same mode sends the call too.
        if mode not in (hold.grant.mode, *_WEAKER[hold.grant.mode]):
            raise InvalidArgument(f"{mode!r} is not weaker than {hold.grant.mode!r}: use upgrade()")
        await change.downgrade(mode)


@contextlib.asynccontextmanager
async def _next_change(hold: Hold) -> AsyncIterator[_ModeChange]:
    """Waits for the turn to change the hold. A change that the cluster may have made keeps the turn for its fallback."""
    with hold.session.pending():
        await hold.entry.mode_change.acquire()
        change = _ModeChange(hold)
        try:
            hold.ensure()
            yield change
        finally:
            change.end()


class _ModeChange:
    """A hold between two modes."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        #: Not stronger than the current mode, so the cluster always grants it.
        self._fallback = hold.grant.mode
        #: Each call of the change has a larger number.
        self._newest = hold.entry.attempt
        #: Whether a renewal listed the new token during a pause.
        self._is_granted_elsewhere = False
        #: Whether the mode of the hold is known.
        self._is_over = True

    async def upgrade(self, limit: WaitLimit) -> None:
        self._begin()
        await self._upgrade(limit)

    async def downgrade(self, mode: str) -> None:
        self._fallback = mode
        self._begin()
        await self._complete_fallback()

    def end(self) -> None:
        """Ends the turn, or completes the fallback in the background. After a loss there is no mode to restore."""
        if self._is_over or self._hold.loss() is not None:
            self._hold.entry.mode_change.release()
        else:
            self._hold.session.start_release(self._fall_back())

    def _begin(self) -> None:
        self._is_over = False
        self._hold.entry.stage = Stage.CONVERTING

    async def _upgrade(self, limit: WaitLimit) -> None:
        is_renumbered = False
        while True:
            wait = limit.next_call()
            delivery = await self._call("exclusive", wait)
            error = delivery.error
            if error is None:
                granted = delivery.checked().json()["mode"]
                if granted == "exclusive":
                    return self._completed("exclusive", delivery)
                if is_renumbered:
                    await self._complete_fallback()
                    raise Unavailable(f"the lock kept the mode {granted}")
                # The cluster executed a later call of this hold, so this one changed nothing.
                is_renumbered = True
            elif is_uncertain(error) and not limit.is_over(error):
                await self._pause(self._hold.session.ending, error)
            elif isinstance(error, Busy) and wait > 0 and not limit.is_over():
                continue
            elif newest_attempt(error) is not None and not is_renumbered:
                is_renumbered = True
            elif is_hold_gone(error):
                raise self._gone()
            elif isinstance(error, (Busy, Rejected)) and not delivery.in_doubt:
                self._unchanged()
                raise error
            else:
                # The cluster may still have granted the upgrade.
                await self._complete_fallback()
                raise error

    async def _complete_fallback(self) -> None:
        """Requests the fallback until the cluster confirms it. Raises the rejection of the cluster, which ends no hold."""
        is_renumbered = in_doubt = False
        while True:
            pause_end = self._hold.session.pause_end
            delivery = await self._call(self._fallback, 0.0)
            error = delivery.error
            if error is None:
                return self._completed(self._fallback, delivery)
            in_doubt |= delivery.in_doubt or is_unclear(error)
            if is_unclear(error):
                await self._pause(self._hold.session.lost, error, RETRY_PAUSE, pause_end)
            elif newest_attempt(error) is not None and not is_renumbered:
                is_renumbered = True
            elif is_hold_gone(error) or isinstance(error, Lost):
                raise self._gone()
            else:
                if in_doubt:
                    # An earlier call may have made the hold weaker.
                    self._hold.grant = replace(self._hold.grant, mode=self._fallback)
                self._unchanged()
                raise error

    async def _fall_back(self) -> None:
        try:
            await self._complete_fallback()
        except Error:
            pass  # The hold reports the result.
        finally:
            self._hold.entry.mode_change.release()

    async def _call(self, mode: str, wait: float) -> Delivery:
        """Requests a mode until a node answers. A renewal that lists the new token makes the call repeat itself."""
        hold = self._hold
        by = numbers.after(self._newest)
        call = hold.request.change_call(hold.session.id, hold.entry.attempt, by, {"mode": mode}, wait)
        is_granted_elsewhere, self._is_granted_elsewhere = self._is_granted_elsewhere, False
        while True:
            # The fallback, which does not wait, still completes while the client closes.
            end = hold.session.ending if wait > 0 else hold.session.lost
            delivery = await deliver_until(end, hold.session, call, is_granted_elsewhere, hold.entry)
            if delivery is not None:
                delivery = delivery.expecting(**GRANT, mode=str)
                if hold.entry.stage is Stage.LEAVING:
                    self._is_over = True
                    raise Lost(hold.loss() or Loss("released-elsewhere"), hold.entry.lock, hold.grant.token)
                # Another program of the session may have a larger number.
                newest = newest_attempt(delivery.error) if delivery.error else None
                self._newest = newest or self._newest
                return delivery
            is_granted_elsewhere = True

    async def _pause(
        self,
        end: "asyncio.Future[Loss]",
        error: Error,
        at_least: float = 0.0,
        stop: "Optional[asyncio.Future[None]]" = None,
    ) -> None:
        """Waits until the call that failed may be sent again. Raises the loss of the hold. `stop` ends the time early."""
        self._is_granted_elsewhere = await is_granted_before_retry(end, error, self._hold.entry, at_least, stop)
        self._hold.ensure()

    def _completed(self, mode: str, delivery: Delivery) -> None:
        body = delivery.checked().json()
        counted_from = delivery.counted_from(body)
        self._hold.session.acknowledge(counted_from, body.get("expires_in_ms") or 0)
        self._hold.session.entries.follow_upgrade(body)
        self._hold.grant = Grant.of(body, mode)
        self._hold.entry.granted(body, self._hold.request.max_hold, counted_from)
        self._hold.session.limits_changed.set()
        self._is_over = True

    def _unchanged(self) -> None:
        self._hold.entry.stage = Stage.HELD
        self._is_over = True

    def _gone(self) -> Lost:
        self._is_over = True
        return self._hold.lose(Loss("released-elsewhere"))
