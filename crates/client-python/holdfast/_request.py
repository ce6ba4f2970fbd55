"""What a caller wants of a lock, checked, and the calls that ask for it. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from ._calls import Call, Copies, Duration, Parameters, check_name, millis, path, query, seconds
from ._entry import generated_owner
from .errors import InvalidArgument

if TYPE_CHECKING:
    from typing_extensions import Literal, TypedDict

    class CampaignOptions(TypedDict, total=False):
        """Options of an acquire. An absent option has the default of the cluster."""

        #: The maximum time in the queue; without it, the acquire waits without bound; 0 takes only a free lock.
        wait: Optional[Duration]
        mode: Optional[Literal["exclusive", "shared", "upgradable"]]
        #: 0 to 9; a higher priority is ahead in the queue.
        priority: Optional[int]
        #: All acquires of one owner share the hold. By default each guard has a separate owner.
        owner: Optional[str]
        #: `False` rejects the acquire if the owner holds the lock; `True` also enters the owner's hold of a semaphore.
        reentrant: Optional[bool]
        #: Fails with `Busy` if the queue already has this many waiters.
        queue_max: Optional[int]
        #: Ends the hold after this time, regardless of renewals.
        max_hold: Optional[Duration]
        #: Blocks other holders for this time after the grant, even after a release.
        min_hold: Optional[Duration]
        #: The client releases the lock if `report_progress` is not called for this time.
        progress_timeout: Optional[Duration]
        #: The time-to-live of the session, which then serves only locks with the same one.
        ttl: Optional[Duration]

    class SemaphoreOptions(CampaignOptions, total=False):
        #: The permits of a semaphore to acquire, all or none; by default one.
        permits: Optional[int]
        #: A text that readers of the lock see.
        value: Optional[str]

    class LockOptions(SemaphoreOptions, total=False):
        #: The limit of a semaphore.
        limit: Optional[int]
        #: The number of shards of a sharded lock, each of which is a separate lock. The cluster selects a shard.
        shards: Optional[int]
        #: The shard to acquire, counted from 0.
        shard: Optional[int]


_DURATIONS = {"wait": 0.0, "max_hold": 0.001, "min_hold": 0.001, "progress_timeout": 0.001, "ttl": 1.0}
_TYPES: Dict[str, type] = {
    "mode": str,
    "permits": int,
    "limit": int,
    "priority": int,
    "owner": str,
    "reentrant": bool,
    "queue_max": int,
    "value": str,
    "shards": int,
    "shard": int,
}
_MODES = ("exclusive", "shared", "upgradable")


class SessionId(NamedTuple):
    """Names one session, so that a call never opens another session of the same name."""

    name: str
    incarnation: int


@dataclass(frozen=True)
class LockRequest:
    """A checked request for one lock or several. Times are seconds."""

    locks: Tuple[str, ...]
    #: `None` until an acquire, which then has a separate owner.
    owner: Optional[str] = None
    wait: Optional[float] = None
    mode: Optional[str] = None
    permits: Optional[int] = None
    limit: Optional[int] = None
    priority: Optional[int] = None
    reentrant: Optional[bool] = None
    queue_max: Optional[int] = None
    max_hold: Optional[float] = None
    min_hold: Optional[float] = None
    value: Optional[str] = None
    progress_timeout: Optional[float] = None
    ttl: Optional[float] = None
    shards: Optional[int] = None
    shard: Optional[int] = None

    @classmethod
    def of(cls, locks: Sequence[str], options: Mapping[str, Any]) -> LockRequest:
        """Checks names and options."""
        if not locks:
            raise InvalidArgument("no lock is named: name at least one")
        checked: Dict[str, Any] = {}
        for name, value in options.items():
            if name in _DURATIONS:
                checked[name] = None if value is None else seconds(value, name, _DURATIONS[name])
            elif name in _TYPES:
                checked[name] = _checked(name, value)
            else:
                raise TypeError(f"{name!r} is no option of a lock: use one of {', '.join([*_DURATIONS, *_TYPES])}")
        if checked.get("mode") not in (None, *_MODES):
            raise InvalidArgument(f"mode is {checked['mode']!r}: use one of {', '.join(_MODES)}")
        if len(locks) > 1 and ("shards" in checked or "shard" in checked):
            raise InvalidArgument("shards are of one lock: acquire one lock")
        return cls(locks=tuple(check_name(lock) for lock in locks), **checked)

    @property
    def is_sharded(self) -> bool:
        """Whether the request is for one shard of a sharded lock."""
        return self.shards is not None or self.shard is not None

    def owned(self) -> LockRequest:
        """The request with an owner."""
        return self if self.owner is not None else replace(self, owner=generated_owner())

    def reentry(self, mode: str) -> LockRequest:
        """The request of another guard of the same hold, which keeps its permits."""
        return replace(self, mode=mode, permits=None, reentrant=True, wait=0.0)

    def call(self, session: SessionId, attempt: int, wait: float) -> Call:
        """The call that acquires the locks, or renews the attempt's hold."""
        parameters: Parameters = {
            "name": list(self.locks) if len(self.locks) > 1 else None,
            "session": session.name,
            "incarnation": session.incarnation,
            "owner": self.owner,
            "attempt": attempt,
            "wait": millis(wait) if wait else None,
            "queue_max": self.queue_max,
            "mode": self.mode,
            "permits": self.permits,
            "limit": self.limit,
            "priority": self.priority,
            "reentrant": self.reentrant,
            "max_hold": None if self.max_hold is None else millis(self.max_hold),
            "min_hold": None if self.min_hold is None else millis(self.min_hold),
            "value": self.value,
            "shards": self.shards,
            "shard": self.shard,
        }
        if len(self.locks) == 1:
            target = path("locks", self.locks[0])
            return Call("PUT", target + query(parameters), wait=wait, copies=Copies.HARMLESS)
        return Call("POST", "/v1/locks" + query(parameters), wait=wait, copies=Copies.HARMLESS)

    def change_call(self, session: SessionId, attempt: int, by: int, change: Parameters, wait: float) -> Call:
        """The call that changes an attempt's hold; `by` is the number of the change. It never acquires the lock."""
        parameters: Parameters = {
            "session": session.name,
            "incarnation": session.incarnation,
            "owner": self.owner,
            "attempt": by,
            "change": attempt,
            "wait": millis(wait) if wait else None,
            "shards": self.shards,
            "shard": self.shard,
            **change,
        }
        target = path("locks", self.locks[0]) + query(parameters)
        return Call("PUT", target, wait=wait, copies=Copies.HARMLESS)


def _checked(name: str, value: Any) -> Any:
    wanted = _TYPES[name]
    is_bool = isinstance(value, bool)
    if value is not None and (not isinstance(value, wanted) or is_bool != (wanted is bool)):
        raise InvalidArgument(f"{name} is {value!r}: give a value of type {wanted.__name__}")
    return value
