"""The locks and guards of the asyncio API."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Optional, Type, Union

from . import _mode, _recipes, _transfer
from ._aio import Body, Caller, Signal, caller_id
from ._calls import Duration, check_name, seconds
from ._guard import EnteredGuards, MultiGuardBase, SingleGuardBase
from ._hold import HeldLocks, release_permits
from ._lease import ReleaseRequest
from ._request import LockRequest
from ._session import log
from .errors import Error, Loss, Lost, is_unclear

if TYPE_CHECKING:
    from typing_extensions import Literal

_ExcType = Optional[Type[BaseException]]
_Exc = Optional[BaseException]
_Traceback = Optional[TracebackType]


async def _acquire(client: Caller, request: LockRequest) -> HeldLocks:
    return await client._call(lambda core: core.acquire(request), HeldLocks.release_in_background)


async def _release(guard: AnyGuard) -> None:
    try:
        await guard._client._call(lambda core: guard._held.release(), None, True)
    finally:
        guard._finish()


async def _leave(guard: AnyGuard, body: Body, error: _Exc) -> None:
    """Releases after a body. The error of the body counts more than that of the release. A loss becomes its context."""
    body_error = body.end(error)
    try:
        await guard.release()
    except Lost as lost:
        if body_error is None:
            raise lost from error
        guard._attach_loss(body_error, lost)
    except Error as unconfirmed:
        if body_error is None and not is_unclear(unconfirmed):
            raise
        # The body was done under the lock. A release with an uncertain outcome continues in the background.
        log.warning("the release of %r is not confirmed: %s", guard, unconfirmed)


class Guard(SingleGuardBase[Signal[Loss], Signal[ReleaseRequest]]):
    """A held lock, renewed in the background until it is released or lost."""

    def __init__(self, client: Caller, held: HeldLocks) -> None:
        self._client = client
        super().__init__(held, Signal, Signal)

    async def release(self) -> None:
        """Releases the lock and waits for the confirmation. A second call has no effect.

        Raises `Lost` if the lock was lost before. If no node answers, the release continues in the background.
        """
        await _release(self)

    async def reenter(self) -> Guard:
        """Another guard of the same hold. The cluster releases the lock after the last release."""
        self.ensure()
        hold = self._first
        held = await self._client._call(
            lambda core: core.reenter(hold.session, hold.request.reentry(hold.grant.mode)),
            HeldLocks.release_in_background,
        )
        other = Guard(self._client, held)
        if other.token != self.token:
            await other.release()
            raise hold.lose(Loss("released-elsewhere"))
        return other

    async def upgrade(self, wait: Optional[Duration] = None) -> int:
        """Becomes exclusive when the other holders have left, and returns the new token. Needs an upgradable guard."""
        hold, within = self._first, None if wait is None else seconds(wait, "wait")
        await self._client._call(lambda core: _mode.upgrade(hold, within))
        return self.token

    async def downgrade(self, mode: Literal["upgradable", "shared"] = "shared") -> None:
        """Changes to a weaker mode immediately, with the same token."""
        hold = self._first
        await self._client._call(lambda core: _mode.downgrade(hold, mode))

    async def transfer(self, to: str, owner: Optional[str] = None) -> int:
        """Transfers the lock to another open session, and returns the receiver's token. No waiter is granted in between.

        Stop the work first: once the call starts, `ensure()` raises `Lost`. The receiver is `owner` within that session, or
        the session itself. If the cluster certainly rejects the call, the guard still holds the lock.
        """
        receiver = check_name(to, "the session name")
        try:
            return await self._client._call(lambda core: _transfer.transfer(self._held, receiver, owner))
        finally:
            if self._held.is_over:
                self._finish()

    async def release_permits(self, permits: int) -> None:
        """Gives back some permits of a semaphore, and keeps at least one with the same token."""
        hold = self._first
        await self._client._call(lambda core: release_permits(hold, permits))

    async def __aenter__(self) -> Guard:
        self._body = Body(self.lost)
        return self

    async def __aexit__(self, kind: _ExcType, error: _Exc, traceback: _Traceback) -> None:
        await _leave(self, self._body, error)


class Leadership(Guard):
    """The leadership of an election, renewed in the background until it is resigned or lost."""

    async def proclaim(self, value: str) -> None:
        """Replaces the published value, with the same token."""
        hold = self._first
        await self._client._call(lambda core: _recipes.set_value(hold, value))

    async def resign(self) -> None:
        """Resigns and waits for the confirmation."""
        await self.release()

    async def __aenter__(self) -> Leadership:
        await super().__aenter__()
        return self


class MultiGuard(MultiGuardBase[Signal[Loss], Signal[ReleaseRequest]]):
    """Several held locks, renewed in the background until they are released or lost."""

    def __init__(self, client: Caller, held: HeldLocks) -> None:
        self._client = client
        super().__init__(held, Signal, Signal)

    async def release(self) -> None:
        """Releases all locks, as `Guard.release`."""
        await _release(self)

    async def __aenter__(self) -> MultiGuard:
        self._body = Body(self.lost)
        return self

    async def __aexit__(self, kind: _ExcType, error: _Exc, traceback: _Traceback) -> None:
        await _leave(self, self._body, error)


AnyGuard = Union[Guard, MultiGuard]


class Lock:
    """A lock to acquire. Each acquire makes a separate guard, and two guards exclude each other."""

    def __init__(self, client: Caller, request: LockRequest) -> None:
        self._client = client
        self._request = request
        self._entered: EnteredGuards[Guard] = EnteredGuards()

    async def acquire(self) -> Guard:
        """Acquires the lock. Raises `Busy` if the wait ended before the grant."""
        return Guard(self._client, await _acquire(self._client, self._request))

    async def receive_transfer(self) -> Guard:
        """Waits for the lock that `Guard.transfer` gives to the session of this client. Never acquires the lock.

        The receiver is the `owner` of this lock, or the session itself. Raises `Busy` if the wait ended before the transfer.
        The release of the guard ends the hold, so release guards that re-entered it first.
        """
        request = self._request
        held = await self._client._call(lambda core: _transfer.receive(core, request), HeldLocks.release_in_background)
        return Guard(self._client, held)

    async def __aenter__(self) -> Guard:
        guard = await (await self.acquire()).__aenter__()
        self._entered.add(caller_id(), guard)
        return guard

    async def __aexit__(self, kind: _ExcType, error: _Exc, traceback: _Traceback) -> None:
        await self._entered.take(caller_id()).__aexit__(kind, error, traceback)


class MultiLock:
    """Several locks to acquire, all or none."""

    def __init__(self, client: Caller, request: LockRequest) -> None:
        self._client = client
        self._request = request
        self._entered: EnteredGuards[MultiGuard] = EnteredGuards()

    async def acquire(self) -> MultiGuard:
        """Acquires all locks. Raises `Busy` if the wait ended before all were free together."""
        return MultiGuard(self._client, await _acquire(self._client, self._request))

    async def __aenter__(self) -> MultiGuard:
        guard = await (await self.acquire()).__aenter__()
        self._entered.add(caller_id(), guard)
        return guard

    async def __aexit__(self, kind: _ExcType, error: _Exc, traceback: _Traceback) -> None:
        await self._entered.take(caller_id()).__aexit__(kind, error, traceback)
