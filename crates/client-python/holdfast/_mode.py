"""Changing the mode of a held lock without releasing it: up to exclusive, or down to a weaker mode.

Each call names the attempt that it changes and has a separate number, so a late copy of any call converts nothing.
While the mode is unknown, the queue entry is `CONVERTING`, so that its new token does not look like a loss. An upgrade
that ends early restores the old mode, in the background if necessary. A downgrade never waits; the client repeats it
until the cluster confirms it.
"""

from __future__ import annotations

from typing import Optional

from ._acquire import WaitLimit, deliver_until
from ._entry import Stage
from ._hold import Grant, Hold
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
    UnexpectedResponse,
    is_hold_gone,
    is_uncertain,
    newest_attempt,
)

_WEAKER = {"exclusive": ("upgradable", "shared"), "upgradable": ("shared",), "shared": ()}


async def upgrade(hold: Hold, wait: Optional[float]) -> None:
    """Becomes exclusive when the shared holders have left, ahead of the queue, and with a new token."""
    limit = WaitLimit(wait)
    async with hold.entry.mode_change:
        hold.ensure()
        if hold.grant.mode != "exclusive":
            await _ModeChange(hold, hold.grant.mode).upgrade(limit)


async def downgrade(hold: Hold, mode: str) -> None:
    """Changes to a weaker mode immediately, with the same token."""
    async with hold.entry.mode_change:
        hold.ensure()
        if hold.grant.mode == mode:
            return
        if mode not in _WEAKER[hold.grant.mode]:
            raise InvalidArgument(f"{mode!r} is not weaker than {hold.grant.mode!r}: use upgrade()")
        change = _ModeChange(hold, mode)
        try:
            await change.complete_fallback()
        except BaseException:
            change.fall_back_later()
            raise


class _ModeChange:
    """A hold between two modes. `fallback` is not stronger than the current mode, so the cluster always grants it."""

    def __init__(self, hold: Hold, fallback: str) -> None:
        self._hold = hold
        self._fallback = fallback
        self._token = hold.grant.token
        #: Each call of the change has a larger number.
        self._newest = hold.entry.attempt
        self._is_over = False
        hold.entry.stage = Stage.CONVERTING

    async def upgrade(self, limit: WaitLimit) -> None:
        with self._hold.session.pending():
            try:
                await self._upgrade(limit)
            except BaseException:
                self.fall_back_later()
                raise

    async def _upgrade(self, limit: WaitLimit) -> None:
        is_renumbered = False
        while True:
            wait = limit.next_call()
            delivery = await self._call("exclusive", wait)
            error = delivery.error
            if error is None:
                granted = delivery.checked().json().get("mode")
                if granted == "exclusive":
                    return self._completed("exclusive", delivery)
                if is_renumbered:
                    await self.complete_fallback()
                    raise Unavailable(f"the lock kept the mode {granted}")
                # The cluster executed a later call of this hold, so this one changed nothing.
                is_renumbered = True
            elif is_uncertain(error) and not limit.is_over():
                continue
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
                await self.complete_fallback()
                raise error

    async def complete_fallback(self) -> None:
        """Requests the fallback until the cluster confirms it."""
        is_renumbered = False
        while True:
            delivery = await self._call(self._fallback, 0.0)
            if self._hold.entry.stage is Stage.LEAVING:
                self._is_over = True
                raise Lost(Loss("released-elsewhere"), self._hold.entry.lock, self._token)
            error = delivery.error
            if error is None:
                return self._completed(self._fallback, delivery)
            if is_uncertain(error) or isinstance(error, UnexpectedResponse):
                continue
            if newest_attempt(error) is None or is_renumbered:
                # The cluster no longer has the hold.
                self._is_over = True
                self._hold.lose(Loss("released-elsewhere"))
                raise error
            is_renumbered = True

    def fall_back_later(self) -> None:
        """Completes the fallback in the background. After a loss there is no mode to restore."""
        if not self._is_over and self._hold.loss() is None:
            self._hold.session.start_release(self._fall_back())

    async def _fall_back(self) -> None:
        async with self._hold.entry.mode_change:
            try:
                await self.complete_fallback()
            except Error:
                pass  # The hold reports the result.

    async def _call(self, mode: str, wait: float) -> Delivery:
        """Requests a mode until a node answers. A renewal that lists the new token makes the call repeat itself."""
        hold = self._hold
        by = numbers.after(self._newest)
        call = hold.request.change_call(hold.session.id, hold.entry.attempt, by, {"mode": mode}, wait)
        is_granted_elsewhere = False
        while True:
            # The fallback, which does not wait, still completes while the client closes.
            end = hold.session.ending if wait > 0 else hold.session.lost
            delivery = await deliver_until(end, hold.session, call, is_granted_elsewhere, hold.entry)
            if delivery is not None:
                # Another program of the session may have a larger number.
                newest = newest_attempt(delivery.error) if delivery.error else None
                self._newest = newest or self._newest
                return delivery
            is_granted_elsewhere = True

    def _completed(self, mode: str, delivery: Delivery) -> None:
        body = delivery.checked().json()
        counted_from = delivery.counted_from(body)
        self._hold.session.acknowledge(counted_from, body.get("expires_in_ms") or 0)
        self._hold.grant = Grant.of(body, mode)
        self._hold.entry.granted(body, self._hold.request.max_hold, counted_from)
        self._hold.session.limits_changed.set()
        self._is_over = True

    def _unchanged(self) -> None:
        self._hold.entry.hold(self._token)
        self._is_over = True

    def _gone(self) -> Lost:
        self._is_over = True
        return self._hold.lose(Loss("released-elsewhere"))
