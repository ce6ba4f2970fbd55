"""Elections, latches, barriers, counters and watches of the blocking API."""
# Written by scripts/blocking: change the file of the asyncio API.

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterator, Dict, Optional, Type, Union

from . import _groups, _recipes, _tree
from ._sync import Caller
from ._sync_guards import Leadership
from ._calls import Duration, Parameters, seconds
from ._groups import MembershipRecord
from ._hold import HeldLocks
from ._recipes import Arrival, Tripped
from ._request import LockRequest
from ._session import FORKED, Session, log
from ._tree import Change, Gap, Leader
from .errors import Error, Lost

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._request import CampaignOptions

_ExcType = Optional[Type[BaseException]]
_Exc = Optional[BaseException]
_Traceback = Optional[TracebackType]


class Election:
    """An election."""

    def __init__(self, client: Caller, name: str) -> None:
        self._client = client
        self._name = name

    def campaign(self, value: str = "", **options: Unpack[CampaignOptions]) -> Leadership:
        """Campaigns with a value that every client can read, and returns when this candidate leads."""
        request = LockRequest.of([f"elections/{self._name}"], {**options, "value": value or None})
        held = self._client._call(lambda core: core.acquire(request), HeldLocks.release_in_background)
        return Leadership(self._client, held)

    def leader(self) -> Optional[Leader]:
        """The leader, or `None`."""
        return self._client._call(lambda core: _tree.leader(core, self._name))

    def observe(self) -> Observer:
        """The present leader, then each change."""
        return Observer(self._client, self._name)


class Observer:
    """The leaders of an election: a `Leader`, `None` for a vacancy, or a `Gap` if changes are missing."""

    def __init__(self, client: Caller, name: str) -> None:
        self._client = client
        self._state = _tree.Observer(name)

    def next(self) -> Union[Leader, Gap, None]:
        """Waits for the next change, after the first answer also through an outage.

        A failure does not end the observer: call it again.
        """
        return self._client._call(self._state.next, self._state.put_back)

    def close(self) -> None:
        """Ends the stream of events. A later `next` continues it."""
        self._client._call(self._state.end)

    def __iter__(self) -> Iterator[Union[Leader, Gap, None]]:
        try:
            while True:
                yield self.next()
        finally:
            self.close()

    def __del__(self) -> None:
        if state := getattr(self, "_state", None):
            state.drop()


class Watch:
    """The changes of a part of the tree. A `Gap` reports that changes are missing."""

    def __init__(self, client: Caller, selection: Parameters, since: Optional[int]) -> None:
        self._client = client
        self._state = _tree.Watch(selection, since)

    def start(self) -> int:
        """Returns the revision from which the watch begins: read the state after this call."""
        return self._client._call(self._state.start)

    def next(self) -> Union[Change, Gap]:
        """Waits for the next change, after the first answer also through an outage.

        A failure does not end the watch: call it again.
        """
        return self._client._call(self._state.next, self._state.put_back)

    def __iter__(self) -> Iterator[Union[Change, Gap]]:
        while True:
            yield self.next()


class Group:
    """A group of members, each with a value."""

    def __init__(self, client: Caller, name: str) -> None:
        self._client = client
        self._name = name

    def join(self, value: str = "") -> Membership:
        """Joins with a value, such as an address. A session is a member at most once: joining again replaces the value."""
        record = self._client._call(
            lambda core: _groups.join(core, self._name, value), MembershipRecord.leave_in_background
        )
        return Membership(self._client, record)

    def members(self) -> Dict[str, str]:
        """The value of each member by its session. Sends one call for each member."""
        return self._client._call(lambda core: _groups.members(core, self._name))

    def watch(self) -> GroupWatch:
        """The members, then the members after each change."""
        return GroupWatch(self._client, self._name)


class GroupWatch:
    """The members of a group, now and after each change. Two quick changes may appear as one."""

    def __init__(self, client: Caller, name: str) -> None:
        self._client = client
        self._state = _groups.GroupWatch(name)

    def next(self) -> Dict[str, str]:
        """Waits until the members differ from the last result, after the first answer also through an outage.

        A failure does not end the watch: call it again.
        """
        return self._client._call(self._state.next, self._state.put_back)

    def __iter__(self) -> Iterator[Dict[str, str]]:
        while True:
            yield self.next()


class Membership:
    """A membership of a group, which ends with its session. `with` leaves the group."""

    def __init__(self, client: Caller, record: MembershipRecord) -> None:
        self._client = client
        self._record = record

    @property
    def session(self) -> str:
        """The session of the member."""
        return self._record.session.name

    def ensure(self) -> None:
        """Raises `Lost` unless the session certainly lives. After a loss, join again."""
        self._record.ensure()

    def set_value(self, value: str) -> None:
        """Replaces the value."""
        self._record.ensure()
        self._client._call(lambda core: self._record.write(value))

    def leave(self) -> None:
        """Leaves the group and waits for the confirmation. A second call has no effect."""
        self._client._call(lambda core: self._record.leave(), None, True)

    def __enter__(self) -> Membership:
        return self

    def __exit__(self, kind: _ExcType, error: _Exc, traceback: _Traceback) -> None:
        try:
            self.leave()
        except Error as unconfirmed:
            log.warning("the end of %r is not confirmed: %s", self, unconfirmed)


class OpenSession:
    """The session of a client, which is renewed until `close`. A sender needs its name to transfer a lock to it."""

    def __init__(self, client: Caller, session: Session) -> None:
        self._client = client
        self._session = session
        self._is_over = False

    @property
    def name(self) -> str:
        return self._session.name

    def ensure(self) -> None:
        """Raises `Lost` unless the session certainly lives."""
        if loss := FORKED if self._session.is_of_parent else self._session.loss():
            raise Lost(loss)

    def close(self) -> None:
        """Ends this use of the session. Guards of the client may still use it."""
        if not self._is_over:
            self._is_over = True
            self._client._call(lambda core: core.unuse(self._session), None, True)

    def __enter__(self) -> OpenSession:
        return self

    def __exit__(self, kind: _ExcType, error: _Exc, traceback: _Traceback) -> None:
        self.close()


class Latch:
    """A latch."""

    def __init__(self, client: Caller, name: str) -> None:
        self._client = client
        self._name = name

    def create(self, count: int) -> int:
        """Creates the latch, unless one with the same count exists. Returns the count that is left."""
        return self._client._call(lambda core: _recipes.create_latch(core, self._name, count))

    def count_down(self, key: str) -> int:
        """Counts down once for each key. Returns the count that was left after the first call for the key."""
        return self._client._call(lambda core: _recipes.count_down(core, self._name, key))

    def wait(self, wait: Duration) -> None:
        """Waits until the latch is open. Raises `Busy` if it is not open in time."""
        within = seconds(wait, "wait")
        self._client._call(lambda core: _recipes.wait_for_latch(core, self._name, within))

    def delete(self) -> None:
        """Deletes the latch. Callers that wait for it get `Rejected`."""
        self._client._call(lambda core: _recipes.delete(core, "latches", self._name))


class Barrier:
    """A barrier."""

    def __init__(self, client: Caller, name: str, parties: int) -> None:
        self._client = client
        self._name = name
        self._parties = parties

    def wait(self, wait: Duration) -> Tripped:
        """Arrives and waits for the other parties; each call is a separate arrival.

        The end of the wait breaks the barrier for all waiting parties: they get `Rejected` with `barrier-broken`.
        """
        within = seconds(wait, "wait")
        arrived = self._client._call(
            lambda core: _recipes.arrive(core, "barriers", self._name, self._parties, within)
        )
        return arrived.round


class DoubleBarrier:
    """A double barrier. One object is one party; `with` enters and leaves."""

    def __init__(self, client: Caller, name: str, parties: int) -> None:
        self._client = client
        self._name = name
        self._parties = parties
        self._arrival: Optional[Arrival] = None

    def enter(self, wait: Duration) -> Tripped:
        """Waits until enough other parties enter."""
        within = seconds(wait, "wait")
        self._arrival = self._client._call(
            lambda core: _recipes.arrive(core, "double-barriers", self._name, self._parties, within),
            Arrival.leave_in_background,
        )
        return self._arrival.round

    def leave(self, wait: Duration) -> None:
        """Leaves, and waits until all parties have left. Raises `Busy` if others are still inside after the wait."""
        arrival, within = self._arrival, seconds(wait, "wait")
        if arrival is not None:
            self._arrival = None
            self._client._call(lambda core: arrival.leave(within), None, True)


class Counter:
    """A counter."""

    def __init__(self, client: Caller, name: str) -> None:
        self._client = client
        self._name = name

    def get(self) -> _recipes.Count:
        """The value and the version; both are 0 before the first change."""
        return self._client._call(lambda core: _recipes.read_counter(core, self._name))

    def add(self, amount: int) -> _recipes.Count:
        """Adds `amount` exactly once, even if the client sends several copies of the call."""
        return self._change("POST", {"add": amount})

    def set(self, value: int, *, version: Optional[int] = None) -> _recipes.Count:
        """Replaces the value; with a `version`, only if the counter has it."""
        return self._change("PUT", {"value": value, "version": version})

    def delete(self) -> None:
        """Deletes the counter, which resets it to 0."""
        self._client._call(lambda core: _recipes.delete(core, "counters", self._name))

    def _change(self, method: str, parameters: Parameters) -> _recipes.Count:
        return self._client._call(
            lambda core: _recipes.change_counter(core, self._name, method, parameters)
        )
