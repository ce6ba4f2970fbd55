"""The asyncio client, with the names of the blocking one.

Renewals run on a separate thread, so that a blocked event loop cannot stop them. If a lock is lost, the task of the
body of `async with` is cancelled, and the statement raises `Lost`.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Type, Union

from . import _recipes, _tree
from ._aio import Caller
from ._aio_guards import Guard, Leadership, Lock, MultiGuard, MultiLock
from ._aio_recipes import Barrier, Counter, DoubleBarrier, Election, Group, GroupWatch, Latch, Membership, Observer, OpenSession, Watch
from ._calls import Duration, check_name, seconds
from ._request import LockRequest
from ._session import Session, log
from ._tree import Znode
from .errors import Error

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._request import LockOptions, SemaphoreOptions

__all__ = [
    "Barrier",
    "Client",
    "Counter",
    "DoubleBarrier",
    "Election",
    "Group",
    "GroupWatch",
    "Guard",
    "Latch",
    "Leadership",
    "Lock",
    "Membership",
    "MultiGuard",
    "MultiLock",
    "Observer",
    "OpenSession",
    "Watch",
]

_ExcType = Optional[Type[BaseException]]
_Exc = Optional[BaseException]
_Traceback = Optional[TracebackType]


class Client(Caller):
    __doc__ = Caller.__doc__

    def lock(self, name: str, **options: Unpack[LockOptions]) -> Lock:
        """A lock, to acquire by `async with` or `acquire()`. Sends nothing yet."""
        return Lock(self, LockRequest.of([name], options))

    def lock_many(self, names: Sequence[str], **options: Unpack[LockOptions]) -> MultiLock:
        """Several locks, all or none. Sends nothing yet."""
        return MultiLock(self, LockRequest.of(list(names), options))

    def semaphore(self, name: str, limit: int, **options: Unpack[SemaphoreOptions]) -> Lock:
        """A lock with at most `limit` permits in use. The first acquire creates the semaphore."""
        return Lock(self, LockRequest.of([name], {**options, "limit": limit}))

    def election(self, name: str) -> Election:
        """An election, which has many candidates and one leader."""
        return Election(self, check_name(name))

    def group(self, name: str) -> Group:
        """A group, which lists its live members, each with a value."""
        return Group(self, check_name(name))

    def latch(self, name: str) -> Latch:
        """A latch, which counts down once for each key and opens at zero."""
        return Latch(self, check_name(name))

    def barrier(self, name: str, parties: int) -> Barrier:
        """A barrier that opens when `parties` callers have arrived."""
        return Barrier(self, check_name(name), parties)

    def double_barrier(self, name: str, parties: int) -> DoubleBarrier:
        """A double barrier that `parties` callers enter together and leave together."""
        return DoubleBarrier(self, check_name(name), parties)

    def counter(self, name: str) -> Counter:
        """A counter of 64 bits."""
        return Counter(self, check_name(name))

    def watch(self, prefix: Optional[str] = None, *, path: Optional[str] = None, since: Optional[int] = None) -> Watch:
        """The changes of all paths that begin with `prefix`, or of one `path`, after the revision `since`."""
        return Watch(self, _tree.selection(prefix, path), since)

    async def tree_get(self, path: str) -> Optional[Znode]:
        """The znode, or `None` if it does not exist."""
        return await self._call(lambda core: _tree.read(core, path))

    async def tree_put(
        self,
        path: str,
        data: Union[bytes, str],
        *,
        version: Optional[int] = None,
        create: bool = False,
        parents: bool = False,
    ) -> int:
        """Creates the znode or replaces its data, and returns its version.

        With a `version`, replaces only that version; with `create`, only creates; otherwise raises `Rejected`.
        """
        condition = _tree.condition(version, create)
        return await self._call(lambda core: _tree.write(core, path, _tree.encoded(data), condition, parents))

    async def tree_delete(self, path: str, *, version: Optional[int] = None, recursive: bool = False) -> int:
        """Deletes the znode, and returns the number of deleted znodes."""
        condition = _tree.condition(version, False)
        return await self._call(lambda core: _tree.remove(core, path, condition, recursive))

    async def lock_state(self, lock: str) -> Dict[str, Any]:
        """The holders and the queue of a lock, as the cluster describes them."""
        return await self._call(lambda core: _recipes.lock_state(core, check_name(lock)))

    async def force_release(self, lock: str, reason: str, *, token: Optional[int] = None) -> int:
        """Ends every hold of a lock, or the hold of a token, as an operator. Returns the number of ended holds."""
        return await self._call(lambda core: _recipes.force_release(core, check_name(lock), reason, token))

    async def hold_durably(self, lock: str, owner: str, reason: str, *, wait: Duration = 0.0) -> int:
        """Acquires a lock with a durable hold, or finds the hold that the owner has, and returns its token.

        The hold outlasts this program: store the token, which alone releases it.
        """
        wanted = (check_name(lock), owner, reason, seconds(wait, "wait"))
        return await self._call(lambda core: _recipes.hold_durably(core, *wanted))

    async def release_durable(self, lock: str, owner: str, token: int) -> None:
        """Releases the durable hold that has this token. A repeated call has no effect."""
        await self._call(lambda core: _recipes.release_durable(core, check_name(lock), owner, token))

    async def request_release(
        self,
        lock: str,
        reason: Optional[str] = None,
        *,
        deadline: Duration = 30.0,
        revoke: bool = False,
        token: Optional[int] = None,
    ) -> int:
        """Asks the holders to release the lock by the deadline; `revoke` ends their holds then.

        Returns the number of holders that were asked.
        """
        asked = (check_name(lock), reason, seconds(deadline, "deadline"), revoke, token)
        return await self._call(lambda core: _recipes.request_release(core, *asked))

    async def open_session(self) -> OpenSession:
        """Opens the session of this client, and renews it until `OpenSession.close`."""
        return OpenSession(self, await self._call(lambda core: core.open_session(), Session.unuse))

    async def close(self) -> None:
        """Ends the client's session, which releases everything it holds. Waiting calls end with `Lost`; guards are lost.

        A session that the caller named stays open with its locks until it expires: release its guards first.
        Raises an error if no node confirms the end of the session, which then ends after its time-to-live.
        """
        await self._close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, kind: _ExcType, error: _Exc, traceback: _Traceback) -> None:
        try:
            await self.close()
        except Error as unconfirmed:
            log.warning("the close of %r is not confirmed: %s", self, unconfirmed)
