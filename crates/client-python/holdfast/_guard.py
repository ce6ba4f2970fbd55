"""What the guards of both APIs have in common: everything that sends nothing."""

from __future__ import annotations

import threading
import warnings
from typing import Callable, Dict, Generic, List, Optional, Tuple, TypeVar

from . import _clock, _engine
from ._hold import HeldLocks, Hold
from ._lease import ReleaseRequest
from ._signal import Report, call_soon
from .errors import Loss, Lost

#: `Signal[Loss]` or `AsyncSignal[Loss]`, and the same of release requests.
LostT = TypeVar("LostT", bound=Report[Loss])
RequestT = TypeVar("RequestT", bound=Report[ReleaseRequest])
GuardT = TypeVar("GuardT")


class GuardBase(Generic[LostT, RequestT]):
    """The locks of one acquire, renewed in the background until they are released or lost."""

    #: Reports the loss. A lost guard stays lost.
    lost: LostT
    #: Reports the latest release request. The hold continues: finish the work and release the guard.
    release_requested: RequestT

    def __init__(
        self,
        held: HeldLocks,
        lost: Callable[[Callable[[], Optional[Loss]]], LostT],
        requested: Callable[[Callable[[], Optional[ReleaseRequest]]], RequestT],
    ) -> None:
        self._held = held
        self.lost = lost(held.reported_loss)
        self.release_requested = requested(held.release_request)
        held.on_change(self.lost._finish, self.release_requested._finish)

    @property
    def session(self) -> str:
        """The session that holds the lock."""
        return self._held.session.name

    def ensure(self) -> None:
        """Raises `Lost` unless the lock is certainly still held. Call it right before each write."""
        for hold in self._held.holds:
            hold.ensure()

    def remaining(self) -> float:
        """The seconds until the deadline, which moves with every renewal; zero if the lock is lost."""
        return min(hold.remaining() for hold in self._held.holds)

    def report_progress(self) -> None:
        """Reports progress of the work, for an acquire with a `progress_timeout`. Raises `Lost` if it is too late."""
        self.ensure()
        for hold in self._held.holds:
            hold.report_progress()

    @property
    def _first(self) -> Hold:
        return self._held.holds[0]

    def _finish(self) -> None:
        """Ends the waits for a loss or a request, after the release."""
        self.lost._finish()
        self.release_requested._finish()

    def _attach_loss(self, error: BaseException, lost: Lost) -> None:
        """Makes a loss the context of the error that ended the body."""
        if error.__context__ is None and error is not lost:
            error.__context__ = lost

    def _state(self) -> str:
        loss = self._held.reported_loss()
        if loss:
            return f"lost: {loss}"
        return "released" if self._held.is_over else f"held for {self.remaining():.3g}s"

    def __del__(self) -> None:
        held = getattr(self, "_held", None)
        if held and not held.is_over and _engine.is_current(held.session.engine):
            shown = repr(self)
            call_soon(held.session.engine.loop, held.release_in_background)
            # This raises where warnings are errors.
            warnings.warn(f"a guard was not released: {shown}", ResourceWarning, source=self, stacklevel=2)


class EnteredGuards(Generic[GuardT]):
    """The guards of the bodies in progress of one lock object. A body may end in another thread or task than it began in."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        #: With their callers, in the order of their acquires.
        self._entered: List[Tuple[int, GuardT]] = []

    def add(self, caller: int, guard: GuardT) -> None:
        with self._mutex:
            self._entered.append((caller, guard))

    def take(self, caller: int) -> GuardT:
        """The newest guard of the caller, else the newest one."""
        with self._mutex:
            own = [index for index, (entered_by, _) in enumerate(self._entered) if entered_by == caller]
            return self._entered.pop(own[-1] if own else -1)[1]


class SingleGuardBase(GuardBase[LostT, RequestT]):
    """A held lock."""

    @property
    def lock(self) -> str:
        """The name of the lock; of a sharded lock, the name of the shard: `stock/3`."""
        return self._first.entry.lock

    @property
    def token(self) -> int:
        """The fencing token to send with every write under the lock. An upgrade replaces it in every guard of the hold."""
        return self._first.grant.token

    @property
    def min_valid_token(self) -> int:
        """The floor of a shared holder or a permit: the smallest token that was still valid at the grant."""
        return self._first.grant.min_valid_token

    @property
    def mode(self) -> str:
        """`exclusive`, `shared` or `upgradable`."""
        return self._first.grant.mode

    @property
    def permits(self) -> int:
        """The number of permits; 1 unless the lock is a semaphore."""
        return self._first.grant.permits

    @property
    def slots(self) -> Tuple[int, ...]:
        """A slot for each permit. No other holder has the same slot at the same time."""
        return self._first.grant.slots

    @property
    def shard(self) -> Optional[int]:
        """The number of the shard, if the lock is sharded."""
        return self._first.grant.shard

    def headers(self, resource: Optional[str] = None) -> Dict[str, str]:
        """The header that carries the token to an HTTP service. The resource is the lock unless another one is named."""
        resource = resource or self.lock
        return {"Fencing-Token": fencing_header(self.token, resource, self._floor_of(resource))}

    def _floor_of(self, resource: str) -> int:
        """The floor of a resource. One that has no other holder, such as a slot of the guard, gets the whole token."""
        has_others = self.mode != "exclusive" or bool(self.slots)
        is_own_slot = resource in [f"{self.lock}#{slot}" for slot in self.slots]
        return self.min_valid_token if has_others and not is_own_slot else self.token

    def __repr__(self) -> str:
        return f"<Guard of {self.lock!r}, token {self.token}, session {self.session!r}, {self._state()}>"


class MultiGuardBase(GuardBase[LostT, RequestT]):
    """Several held locks, each with a separate token."""

    @property
    def locks(self) -> List[str]:
        return [hold.entry.lock for hold in self._held.holds]

    @property
    def tokens(self) -> Dict[str, int]:
        """The token of each lock, to send with writes under that lock."""
        return {hold.entry.lock: hold.grant.token for hold in self._held.holds}

    def headers(self, lock: str) -> Dict[str, str]:
        """The header that carries the token of one lock to an HTTP service."""
        grant = {hold.entry.lock: hold.grant for hold in self._held.holds}[lock]
        return {"Fencing-Token": fencing_header(grant.token, lock, grant.min_valid_token)}

    def __repr__(self) -> str:
        return f"<MultiGuard of {self.tokens}, session {self.session!r}, {self._state()}>"


def fencing_header(token: int, resource: str, floor: int) -> str:
    """`4812; resource="orders"; floor=4810`

    The resource needs printable ASCII, because HTTP libraries reject other characters. Only a holder beside others has a floor.
    """
    is_plain = all(" " <= letter <= "~" for letter in resource)
    escaped = resource.replace("\\", "\\\\").replace('"', '\\"')
    return f"{token}" + (f'; resource="{escaped}"' if is_plain else "") + (f"; floor={floor}" if floor != token else "")


def time_left(request: ReleaseRequest) -> float:
    """The seconds until the deadline of a release request; zero if it has passed."""
    return max(request.deadline - _clock.now(), 0.0)
