"""The queue entries of a session: each acquire has one for each lock, and keeps it while it holds the lock."""

from __future__ import annotations

import asyncio
import enum
import threading
from typing import Any, Callable, Iterable, List, Mapping, Optional, Sequence, Tuple

from . import _clock
from ._calls import Call, Copies, Parameters, path, query
from ._lease import HoldLimits, ReleaseRequest
from ._numbers import random_name
from .errors import Loss


class Stage(enum.Enum):
    WAITING = 1
    HELD = 2
    #: A change of the mode is in progress, so the hold may have a new token.
    CONVERTING = 3
    #: Being released; the cluster may not have the release yet.
    LEAVING = 4


class QueueEntry:
    """One lock of one acquire. Any thread may read it; `limits` changes under a mutex."""

    def __init__(self, lock: str, owner: Optional[str], attempt: int, is_sharded: bool = False) -> None:
        #: Of a sharded lock, the shard `stock/3` once it is granted.
        self.lock = lock
        self._is_any_shard = is_sharded
        #: `None` stands for the session itself.
        self.owner = owner
        #: 0 for a hold that another session transferred.
        self.attempt = attempt
        self.stage = Stage.WAITING
        #: The token of the latest hold.
        self.token: Optional[int] = None
        #: The token before the last upgrade. An event may precede the upgrade.
        self._former_token: Optional[int] = None
        self.limits = HoldLimits()
        #: Set when a renewal lists the lock as held while this entry still waits for the grant.
        self.granted_elsewhere = asyncio.Event()
        #: Set when the loss of the hold is reported.
        self.lost = asyncio.Event()
        #: Excludes other changes of the mode, so that the answers of two changes never mix.
        self.mode_change = asyncio.Lock()
        #: The number of the hold, which an upgrade keeps.
        self.ticket: Optional[int] = None
        #: Called with the new token when another guard or program of the owner has upgraded the hold.
        self.on_upgraded: Callable[[int], None] = lambda _: None
        #: Called on the engine's thread after a loss, and after a release request.
        self.on_lost: Optional[Callable[[], None]] = None
        self.on_request: Optional[Callable[[], None]] = None
        self.is_reported = False
        self._mutex = threading.Lock()

    def change_limits(self, change: Callable[[HoldLimits], HoldLimits]) -> None:
        with self._mutex:
            self.limits = change(self.limits)

    def granted_as(self, lock: str) -> None:
        """Records which shard was granted."""
        self.lock, self._is_any_shard = lock, False

    def covers(self, lock: str) -> bool:
        """Whether the entry is for `lock`, or may be granted as `lock`."""
        return self.lock == lock or (self._is_any_shard and lock.rpartition("/")[0] == self.lock)

    def granted(self, grant: Mapping[str, Any], max_hold: Optional[float], counted_from: float) -> None:
        """Records the token and the end of a grant, whose times count from `counted_from`."""
        ends_in = grant.get("ends_in_ms")
        left = None if ends_in is None else ends_in / 1000
        self.change_limits(lambda limits: limits.ending(max_hold, left, counted_from))
        self.ticket = grant.get("ticket")
        self.hold(int(grant["token"]))

    def follow_upgrade(self, hold: Mapping[str, Any]) -> bool:
        """Continues the hold with this ticket under the token of an upgrade. False if the entry has another hold."""
        if not self._is_hold(hold):
            return False
        token = int(hold["token"])
        if self.stage is Stage.HELD and token > (self.token or 0):
            self.hold(token)
            self.on_upgraded(token)
        return True

    def awaits_upgrade(self, hold: Mapping[str, Any]) -> bool:
        """Whether a change is in progress, and the cluster lists its hold with a later token."""
        return self.stage is Stage.CONVERTING and self._is_hold(hold) and int(hold["token"]) > (self.token or 0)

    def gets(self, event: Mapping[str, Any]) -> bool:
        """Whether an event is of this hold, which its ticket names or, without a ticket, its token now or before an upgrade."""
        if event.get("ticket"):
            return self._is_hold(event) and self.stage in (Stage.HELD, Stage.CONVERTING)
        return self.covers(event["lock"]) and self.holds(event["token"])

    def _is_hold(self, hold: Mapping[str, Any]) -> bool:
        ticket = hold.get("ticket")
        return bool(ticket) and ticket == self.ticket and self.covers(hold["lock"])

    def hold(self, token: int) -> None:
        if token != self.token:
            self._former_token, self.token = self.token, token
        self.stage = Stage.HELD

    def holds(self, token: int) -> bool:
        return token in (self.token, self._former_token) and self.stage in (Stage.HELD, Stage.CONVERTING)

    def is_held_as(self, token: int) -> bool:
        """Whether the hold has this token, without a change or a release in progress, and is not lost."""
        is_lost = isinstance(self.limits.check(_clock.now()), Loss)
        return self.stage is Stage.HELD and self.token == token and not is_lost

    def lose(self, loss: Loss) -> None:
        """Marks the hold as lost; the first loss stays."""
        self.change_limits(lambda limits: limits.lose(loss, _clock.now()))

    def request_release(self, request: ReleaseRequest) -> None:
        self.change_limits(lambda limits: limits.ask(request))
        if self.on_request:
            self.on_request()


def release_call(entries: Sequence[QueueEntry], session: str) -> Call:
    """The call that releases entries of one owner and one attempt. It never releases a later hold."""
    first = entries[0]
    parameters: Parameters = {"session": session, "owner": first.owner}
    if first.attempt:
        parameters["attempt"] = first.attempt
    else:
        parameters["token"] = first.token
    if len(entries) == 1:
        target = path("locks", first.lock) + query(parameters)
    else:
        target = "/v1/locks" + query({"name": [entry.lock for entry in entries], **parameters})
    return Call("DELETE", target, copies=Copies.HARMLESS)


def generated_owner() -> str:
    """The owner of one guard."""
    return random_name("g")


def is_generated_owner(owner: Optional[str]) -> bool:
    """Whether a client library may have generated the owner for one guard."""
    return owner is not None and owner.startswith("g-")


class QueueEntries:
    """The queue entries of one session."""

    def __init__(self) -> None:
        self._all: List[QueueEntry] = []

    def add(self, entry: QueueEntry) -> None:
        self._all.append(entry)

    def remove(self, entries: Iterable[QueueEntry]) -> None:
        gone = {id(entry) for entry in entries}
        self._all = [entry for entry in self._all if id(entry) not in gone]

    def all(self) -> List[QueueEntry]:
        return list(self._all)

    def held(self) -> List[Tuple[QueueEntry, int]]:
        """The holds of the guards, with their tokens."""
        return [(e, e.token) for e in self._all if e.stage is Stage.HELD and e.token is not None]

    def of_hold(self, lock: str, token: int) -> List[QueueEntry]:
        """The entries of one hold: each guard that re-entered it has one."""
        return [entry for entry in self._all if entry.covers(lock) and entry.holds(token)]

    def awaiting(self, lock: str) -> List[QueueEntry]:
        """The entries that wait for a grant or a new token of the lock."""
        return [e for e in self._all if e.covers(lock) and e.stage in (Stage.WAITING, Stage.CONVERTING)]

    def has_owner(self, lock: str, owner: Optional[str]) -> bool:
        return any(entry.covers(lock) and entry.owner == owner for entry in self._all)

    def follow_upgrade(self, grant: Mapping[str, Any]) -> None:
        """Continues the other guards of a granted hold under its token."""
        for entry in self._all:
            entry.follow_upgrade(grant)

    def is_shared(self, entry: QueueEntry) -> bool:
        """Whether another guard of this program has the same hold."""
        return any(other.covers(entry.lock) and other.owner == entry.owner for other in self._all if other is not entry)
