"""The view of one held lock, and the locks of one guard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, List, Mapping, Optional, Tuple, Union

from . import _clock
from ._calls import Call, Copies, Parameters, Response, path, query
from ._entry import QueueEntry, Stage
from ._lease import ENDED_BY_CLIENT, ReleaseRequest
from ._renewal import report_losses
from ._request import LockRequest
from ._send import answer_of_numbered
from ._session import FORKED, Session
from .errors import Error, InvalidArgument, Loss, Lost, is_hold_gone, is_unclear
from .metrics import report


#: The fields of a grant's body. A hold without a token would be no hold.
GRANT = {"lock": str, "token": int, "waited_ms": int}


@dataclass(frozen=True)
class Grant:
    """What the cluster granted. A change of the mode replaces it."""

    token: int
    #: The smallest token of the lock that was still valid at the grant: the floor of a shared holder or a permit.
    min_valid_token: int
    mode: str
    permits: int
    slots: Tuple[int, ...]
    #: The number of the shard, if the lock is sharded.
    shard: Optional[int]

    @classmethod
    def of(cls, body: Mapping[str, Any], mode: Optional[str]) -> Grant:
        # Another guard of the owner may have a stronger mode, which ends with that guard.
        return cls(
            token=int(body["token"]),
            min_valid_token=int(body.get("min_valid_token", body["token"])),
            mode=mode or "exclusive",
            permits=int(body.get("permits", 1)),
            slots=tuple(body.get("slots", ())),
            shard=body.get("shard"),
        )


class Hold:
    """One held lock. Any thread may read it."""

    def __init__(self, session: Session, entry: QueueEntry, grant: Grant, request: LockRequest) -> None:
        self.session = session
        self.entry = entry
        self.grant = grant
        self.request = request
        self.is_released = False
        entry.on_upgraded = self._upgraded
        #: Set before the call that transfers the hold.
        self.is_transferred = False

    def loss(self) -> Optional[Loss]:
        """The loss, by the clock; `None` while the lock is certainly held."""
        loss = self._check()
        return loss if isinstance(loss, Loss) else None

    def remaining(self) -> float:
        """The time until the deadline; zero if the lock is lost."""
        check = self._check()
        return 0.0 if isinstance(check, Loss) else max(check - _clock.now(), 0.0)

    def ensure(self) -> None:
        loss = self.loss()
        if loss:
            raise Lost(loss, self.entry.lock, self.grant.token)

    def report_progress(self) -> None:
        self.ensure()
        self.entry.change_limits(lambda limits: limits.report_progress(_clock.now()))
        self.ensure()

    def lose(self, loss: Loss) -> Lost:
        """Marks the hold as lost; the first loss stays."""
        self.entry.lose(loss)
        self.session.limits_changed.set()
        return Lost(self.loss() or loss, self.entry.lock, self.grant.token)

    def _upgraded(self, token: int) -> None:
        self.grant = replace(self.grant, token=token)

    def _check(self) -> Union[Loss, float]:
        if self.session.is_of_parent:
            return FORKED
        now = _clock.now()
        limit = self.entry.limits.check(now)
        if isinstance(limit, Loss):
            return limit
        if self.is_transferred:
            return Loss("transferred")
        if self.is_released:
            return Loss("released-elsewhere", "this guard was released")
        over = self.session.loss(now)
        if over:
            return over
        deadline = self.session.lease.deadline
        return deadline if limit is None else min(limit, deadline)


class HeldLocks:
    """The locks of one guard, which one acquire granted. A user of their session until they are released."""

    def __init__(self, session: Session, holds: List[Hold]) -> None:
        self.session = session
        self.holds = holds
        self.is_over = False
        self._since = _clock.now()

    def loss(self) -> Optional[Lost]:
        """The first loss, in the order of the locks."""
        for hold in self.holds:
            if loss := hold.loss():
                return Lost(loss, hold.entry.lock, hold.grant.token)
        return None

    def reported_loss(self) -> Optional[Loss]:
        """The first loss. After the release, only a loss that came before."""
        for hold in self.holds:
            loss = hold.entry.limits.lost if self.is_over else hold.loss()
            if loss:
                return replace(loss, lock=hold.entry.lock)
        return None

    def release_request(self) -> Optional[ReleaseRequest]:
        """The latest release request of one of the locks."""
        requests = (hold.entry.limits.request for hold in self.holds)
        return next((request for request in requests if request), None)

    def on_change(self, lost: Callable[[], None], requested: Callable[[], None]) -> None:
        """Calls back on the engine's thread after a loss, and after a release request."""
        for hold in self.holds:
            hold.entry.on_lost, hold.entry.on_request = lost, requested
        if self.reported_loss():
            lost()
        if self.release_request():
            requested()

    def leave(self) -> None:
        """Ends the guard without a release."""
        self.is_over = True
        for hold in self.holds:
            hold.is_released = True
        self.session.unuse()

    async def release(self) -> None:
        """Releases all locks. If the outcome is uncertain, the release continues in the background."""
        if self.is_over:
            return
        if self.session.is_of_parent:
            self.is_over = True
            raise Lost(FORKED, self.holds[0].entry.lock, self.holds[0].grant.token)
        lost = self.loss()
        if lost:
            # The watch may be late, and reports no loss of a hold that is being released.
            report_losses(self.session)
        self.is_over = True
        entries = [hold.entry for hold in self.holds]
        try:
            if self._is_kept_by_the_cluster() and self.session.may_release():
                self.session.release_in_background(entries, self._count_release)
            elif lost and len(entries) == 1:
                # The cluster has no hold any more, or its release or the end of the session is on its way.
                self.session.entries.remove(entries)
            else:
                await self.session.release(entries)
                self._count_release()
        except Error as error:
            if is_unclear(error):
                self.session.release_in_background(entries, self._count_release)
            if lost is None:
                lock = error.problem.facts.get("lock") if error.problem else None
                raise Lost(Loss("released-elsewhere"), lock or entries[0].lock) if is_hold_gone(error) else error
        except BaseException:
            self.session.release_in_background(entries, self._count_release)
            raise
        finally:
            for hold in self.holds:
                hold.is_released = True
            self.session.unuse()
        if lost:
            raise lost

    def _count_release(self) -> None:
        """Counts each lock that the cluster has released, but not those that were lost before."""
        for hold in self.holds:
            if not hold.entry.is_reported:
                report(self.session.metrics.released, hold.entry.lock, _clock.now() - self._since)

    def _is_kept_by_the_cluster(self) -> bool:
        """Whether the cluster may keep a lost lock, of which no release is on its way.

        It may also have a hold of which it does not list the token of the guard.
        """
        losses = [(hold, loss) for hold in self.holds if (loss := hold.loss())]
        kept = (*ENDED_BY_CLIENT, "released-elsewhere")
        return any(
            loss.cause == "not-renewed" or (loss.cause in kept and hold.entry.stage is not Stage.LEAVING)
            for hold, loss in losses
        )

    def release_in_background(self) -> None:
        """Releases all locks, for a caller that is gone."""
        self.session.start_release(self._release_quietly())

    async def _release_quietly(self) -> None:
        try:
            await self.release()
        except Error:
            pass  # The background goes on, or the lock is lost.


async def release_permits(hold: Hold, permits: int) -> None:
    """Gives back some permits of a semaphore, and keeps the others with the same token."""
    hold.ensure()
    left = hold.grant.permits - permits
    if permits < 1 or left < 1:
        raise InvalidArgument("give back at least one permit and keep at least one: release the guard to give back all")
    session, granted = hold.session, hold.grant
    kept = replace(granted, permits=left, slots=granted.slots[:left])

    async def send(request: int) -> Response:
        of: Parameters = {"session": session.name, "owner": hold.entry.owner, "permits": permits, "token": granted.token}
        target = path("locks", hold.entry.lock) + query({**of, "request": request})
        # The cluster may grant the other slots before its answer arrives.
        hold.grant = kept
        delivery = await session.deliver(Call("DELETE", target, copies=Copies.HARMLESS))
        if delivery.error and not delivery.in_doubt:
            hold.grant = granted
        return answer_of_numbered(delivery)

    (await session.numbered_calls.send(send)).check_end()
