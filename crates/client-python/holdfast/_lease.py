"""The arithmetic of a session's lease: its deadline, its renewals, and when it is lost. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Optional, Union

from .errors import Loss

#: Two clocks may differ by this fraction of the time that they measure.
RATE = 0.01
#: Subtracted for the time between reading a clock and acting on it.
SAFETY = 0.005
#: The maximum time to park a keepalive. A node drops the events of a session that sends no poll for two minutes.
PARK_MAX = 45.0
#: The pause of a background task after a failure.
RETRY_PAUSE = 0.2


def deadline(counted_from: float, held: float) -> float:
    """The deadline of a session that the cluster keeps for `held` from `counted_from` or later."""
    return counted_from + max(0.0, held - held * RATE - SAFETY)


def next_renewal(counted_from: float, held: float, jitter: float) -> float:
    """After a third of the lease, less up to a tenth of that third, which spreads the renewals of many clients."""
    third = held / 3
    return counted_from + third - third / 10 * jitter


def retry_pause(failures: int) -> float:
    """The pause after this many consecutive failures: it doubles with each failure."""
    return float(RETRY_PAUSE * 2 ** min(max(failures - 1, 0), 6))


@dataclass(frozen=True)
class Acknowledged:
    """An acknowledged renewal."""

    #: Not later than the moment at which the cluster started to count: the moment of sending.
    counted_from: float
    #: The time that the cluster keeps the session from that moment.
    held: float


@dataclass(frozen=True)
class Lease:
    """The client's view of a session's lease. A change returns another value, so any thread can read it."""

    deadline: float
    renew_at: float
    held: float
    ended: Optional[Loss] = None
    #: The error of the last renewal.
    failure: Optional[str] = None

    @classmethod
    def of(cls, acknowledged: Acknowledged, jitter: float) -> Lease:
        counted_from, held = acknowledged.counted_from, acknowledged.held
        return cls(deadline(counted_from, held), next_renewal(counted_from, held, jitter), held)

    def loss(self, now: float) -> Optional[Loss]:
        """The loss, which is final; `None` while the session certainly lives."""
        if self.ended:
            return self.ended
        if now >= self.deadline:
            return Loss("not-renewed", self.failure or "no renewal was answered")
        return None

    def acknowledge(self, acknowledged: Acknowledged, jitter: float, now: float) -> Lease:
        """Extends the lease, unless its deadline has passed."""
        if self.loss(now):
            return self
        renewed = Lease.of(acknowledged, jitter)
        return replace(renewed, deadline=max(self.deadline, renewed.deadline))

    def renewal_failed(self, failure: str, now: float) -> Lease:
        """Stores the error of a renewal, and schedules the next one."""
        return replace(self, failure=failure, renew_at=now + RETRY_PAUSE)

    def end(self, loss: Loss, now: float) -> Lease:
        """Ends the session; the first loss stays."""
        return replace(self, ended=self.loss(now) or loss)

    def park_time(self, jitter: float) -> float:
        """How long to park a keepalive: a sixth of the lease, less up to a tenth of that."""
        sixth = self.held / 6
        return min(sixth - sixth / 10 * jitter, PARK_MAX)


@dataclass(frozen=True)
class ReleaseRequest:
    """A request to the holder to release the lock."""

    reason: Optional[str]
    #: When the requester wants the lock, on the clock of deadlines.
    deadline: float
    #: Whether the cluster revokes the hold at the deadline. The guard is lost shortly before.
    revoke: bool

    def is_same(self, other: ReleaseRequest) -> bool:
        """Whether both are the same request, received at different moments."""
        return (self.reason, self.revoke) == (other.reason, other.revoke)


@dataclass(frozen=True)
class HoldLimits:
    """What ends one hold while its session lives. A change returns another value, so any thread can read it."""

    progress_timeout: Optional[float] = None
    progress_until: Optional[float] = None
    max_hold: Optional[float] = None
    max_until: Optional[float] = None
    request: Optional[ReleaseRequest] = None
    lost: Optional[Loss] = None

    def check(self, now: float) -> Union[Loss, Optional[float]]:
        """The loss, else the nearest limit, else `None`."""
        if self.lost:
            return self.lost
        if self.progress_until is not None and now >= self.progress_until:
            return Loss("stalled", f"progress_timeout is {self.progress_timeout:g}s")
        if self.max_until is not None and now >= self.max_until:
            return Loss("max-hold-exceeded", f"max_hold is {self.max_hold:g}s")
        revoked_at = self.request.deadline if self.request and self.request.revoke else None
        if self.request and revoked_at is not None and now >= revoked_at:
            return Loss("revoked", self.request.reason)
        ends = [end for end in (self.progress_until, self.max_until, revoked_at) if end is not None]
        return min(ends, default=None)

    def ending(self, max_hold: Optional[float], ends_in: Optional[float], counted_from: float) -> HoldLimits:
        """Ends the hold after the requested `max_hold`, or at the end in the grant if that is sooner.

        A hold may have an end that its guard did not request, e.g. that of its former holder. The earliest end stays.
        """
        ends = [end for end in (max_hold, ends_in) if end is not None]
        if not ends:
            return self
        # The node that counted the remaining time may have been behind.
        until = deadline(counted_from, min(ends))
        if self.max_until is not None and self.max_until <= until:
            return self
        return replace(self, max_hold=ends[0], max_until=until)

    def report_progress(self, now: float) -> HoldLimits:
        """Moves the progress deadline, unless a limit is exceeded."""
        if self.progress_timeout is None or isinstance(self.check(now), Loss):
            return self
        return replace(self, progress_until=now + self.progress_timeout)

    def ask(self, request: ReleaseRequest) -> HoldLimits:
        """Stores a release request. A later one does not postpone a revocation."""
        known = self.request
        if known and known.revoke and (not request.revoke or known.deadline <= request.deadline):
            return self
        return replace(self, request=request)

    def lose(self, loss: Loss, now: float) -> HoldLimits:
        """Marks the hold as lost; the first loss stays."""
        known = self.check(now)
        return replace(self, lost=known if isinstance(known, Loss) else loss)


#: The client ended the hold while the cluster would keep it, so the client releases it.
ENDED_BY_CLIENT = frozenset({"stalled", "max-hold-exceeded", "revoked"})
