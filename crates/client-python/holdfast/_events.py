"""The answers of keepalives: events of the session's locks, and the list of its holds.

Events (a loss with its cause, a release request) reach the guards immediately. Each answer also lists the session's
holds, and that list resolves every difference. A guard without a listed hold is lost, and the client never acquires it
again. A listed hold for which an acquire waits makes the acquire repeat its call at another node. A listed hold without
an entry of the client (a late copy of a call) is released. The client reads locks beside the renewal, which never waits
for them. Bounds: one record for each hold without a guard; `_READERS_MAX` reads in flight, one queued of a kind for each hold.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Awaitable, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from . import _clock, codes
from ._calls import Call, Copies, get, path, query
from ._entry import QueueEntry, Stage, is_generated_owner
from ._lease import ReleaseRequest, deadline, retry_pause
from ._session import Session
from ._within import unless_lost
from .errors import Error, Loss, Lost

#: A read of one lock may take this part of the remaining lease.
_READ_PART = 8
_READERS_MAX = 4
#: A hold without a guard is examined after this time. It may be a grant whose answer is still in flight.
_EXAMINE_DELAY = 0.5
#: The pause between two parked keepalives. It batches events, so a busy session is not renewed for each one.
_PAUSE = 0.04

#: A hold of a guard, according to this client.
KnownHold = Tuple[QueueEntry, int]

_CAUSES = {
    "force-released": "force-released",
    "revoked": "revoked",
    "handed-over": "transferred",
    "session-closed": "session-ended",
    "session-expired": "session-ended",
    "max-hold": "max-hold-exceeded",
}


class SessionPoll:
    """What the client has seen of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        #: The client has delivered all events up to this revision.
        self.since = session.opened_at
        #: When to park the next keepalive.
        self.due = _clock.now()
        #: Consecutive parked calls that no node accepted.
        self._failures = 0
        #: The lock and token of each hold without a guard, and when to examine it.
        self._unguarded: Dict[Tuple[str, int], float] = {}
        #: The reads of locks that have not begun, by their kinds and holds.
        self._reads: Dict[Tuple[object, ...], Callable[[], Awaitable[None]]] = {}
        self._readers = 0

    def park_time(self, wait: float) -> float:
        """How long to park the next keepalive, if nothing happens."""
        now = _clock.now()
        self.due = now + _PAUSE
        return min([wait, *(max(at - now, 0.0) for at in self._unguarded.values())])

    def poll_failed(self) -> None:
        """Schedules the next parked keepalive after one that no node accepted."""
        self.due = _clock.now() + (retry_pause(self._failures) if self._failures else _PAUSE)
        self._failures += 1

    def deliver(self, known: Sequence[KnownHold], body: Mapping[str, Any], held: float, counted_from: float) -> None:
        """Delivers the events of a parked keepalive's answer to the guards. `held` is the length of the lease.

        The times of the events count from `counted_from`.
        """
        self._failures = 0
        self.since = body.get("revision", self.since)
        holds = body.get("holds", [])
        for hold in holds:
            self._session.entries.follow_upgrade(hold)
        for event in body.get("events", []):
            _deliver_event(self._session, event, counted_from)
        if body.get("gap") is not None:
            for entry, _ in known:
                self._read(("gap", entry), partial(self._read_release_request, entry, held / _READ_PART))
        self.reconcile(known, holds, held)

    def reconcile(self, known: Sequence[KnownHold], holds: Sequence[Mapping[str, Any]], held: float) -> None:
        """Compares the holds of the guards with those that the cluster lists."""
        listed = {(str(hold["lock"]), int(hold["token"])) for hold in holds}
        for entry, token in known:
            if (entry.lock, token) in listed or not entry.is_held_as(token) or any(map(entry.follow_upgrade, holds)):
                continue
            self._read(("unlisted", entry), partial(self._verify, entry, token, held / _READ_PART))
        self._unguarded = {hold: at for hold, at in self._unguarded.items() if hold in listed}
        for hold in holds:
            self._examine(hold, held)

    def _examine(self, hold: Mapping[str, Any], held: float) -> None:
        """Examines a hold that has been listed for long enough, and has no guard or a change that it completes."""
        entries, lock, token = self._session.entries, str(hold["lock"]), int(hold["token"])
        changing = [entry for entry in entries.all() if entry.awaits_upgrade(hold)]
        is_known = not changing and bool(entries.of_hold(lock, token))
        awaiting = changing or entries.awaiting(lock)
        # Other clients may use a session that the caller named.
        if is_known or not (awaiting or self._session.is_own):
            self._unguarded.pop((lock, token), None)
            return
        now = _clock.now()
        if now < self._unguarded.setdefault((lock, token), now + _EXAMINE_DELAY):
            return
        self._unguarded[(lock, token)] = now + held / 3
        for entry in awaiting:
            entry.granted_elsewhere.set()
        if not awaiting:
            self._read(("stray", lock, token), partial(self._release_stray, lock, token, held / _READ_PART))

    def _read(self, of: Tuple[object, ...], read: Callable[[], Awaitable[None]]) -> None:
        """Starts a read of a lock, or queues it behind others. The reads end with the session."""
        self._reads[of] = read
        if self._readers < _READERS_MAX:
            self._readers += 1
            self._session.start(self._read_queued())

    async def _read_queued(self) -> None:
        try:
            while self._reads:
                read = self._reads.pop(next(iter(self._reads)))
                await unless_lost(self._session.lost, read())
        except Lost:
            pass  # The session is over.
        finally:
            self._readers -= 1

    async def _read_lock(self, lock: str, timeout: float) -> Optional[Dict[str, Any]]:
        try:
            return await self._session.calls.with_timeout(timeout).json(get(path("locks", lock)), holders=list)
        except Error:
            return None

    def _holder(self, body: Mapping[str, Any], token: Optional[int]) -> Optional[Mapping[str, Any]]:
        holders: List[Mapping[str, Any]] = body.get("holders", [])
        name = self._session.name
        return next((h for h in holders if h.get("token") == token and h.get("session") == name), None)

    async def _verify(self, entry: QueueEntry, token: int, timeout: float) -> None:
        """Loses a hold that the cluster no longer has."""
        if not await self._is_holder(entry.lock, token, timeout) and entry.is_held_as(token):
            entry.lose(Loss("released-elsewhere"))
            self._session.limits_changed.set()

    async def _is_holder(self, lock: str, token: int, timeout: float) -> bool:
        """Whether the session holds the lock under this token: the node that renewed may be behind the grant.

        If no node answers, the session's lease decides.
        """
        body = await self._read_lock(lock, timeout)
        if body is None or self._holder(body, token):
            return True
        if body.get("holders_total", 0) <= len(body.get("holders", [])):
            return False
        # A node lists only the first of many holders, so the token identifies the hold.
        try:
            await self._session.calls.with_timeout(timeout).send(get(path("fence", lock) + query({"token": token})))
        except Error as error:
            return error.code != codes.STALE_TOKEN
        return True

    async def _release_stray(self, lock: str, token: int, timeout: float) -> None:
        """Releases a hold without a guard of a generated session, if its owner was generated for a guard."""
        body = await self._read_lock(lock, timeout)
        holder = self._holder(body, token) if body else None
        owner = holder.get("owner") if holder else None
        entries = self._session.entries
        if not is_generated_owner(owner) or entries.awaiting(lock) or entries.has_owner(lock, owner):
            return
        target = path("locks", lock) + query({"session": self._session.name, "owner": owner, "token": token})
        try:
            await self._session.calls.with_timeout(timeout).confirm(Call("DELETE", target, copies=Copies.HARMLESS))
        except Error:
            pass  # The next examination finds the hold again.

    async def _read_release_request(self, entry: QueueEntry, timeout: float) -> None:
        """Reads an open release request from the lock after a gap in the events."""
        sent, known = _clock.now(), entry.limits.request
        body = await self._read_lock(entry.lock, timeout)
        holder = self._holder(body, entry.token) if body else None
        request = holder.get("release_request") if holder else None
        # An event that came during the read may be of a later request.
        if request and entry.limits.request is known:
            received = release_request(request, sent)
            if known is None or not known.is_same(received):
                entry.request_release(received)
                self._session.limits_changed.set()


def release_request(body: Mapping[str, Any], counted_from: float) -> ReleaseRequest:
    until = deadline(counted_from, body.get("wanted_in_ms", 0) / 1000)
    return ReleaseRequest(body.get("reason"), until, body.get("revoke") is True)


def _deliver_event(session: Session, event: Mapping[str, Any], counted_from: float) -> None:
    entries = [entry for entry in session.entries.all() if entry.gets(event)]
    if event["kind"] == "lost":
        for entry in entries:
            # A guard with a release or a conversion in progress gets the result from the call that changes it.
            if entry.stage is Stage.HELD:
                entry.lose(_loss_of(entry, event))
        session.limits_changed.set()
    elif event["kind"] == "release-requested":
        for entry in entries:
            entry.request_release(release_request(event, counted_from))
        session.limits_changed.set()


def _loss_of(entry: QueueEntry, event: Mapping[str, Any]) -> Loss:
    cause = _CAUSES.get(event.get("cause", ""), "released-elsewhere")
    if cause == "force-released":
        return Loss(cause, event.get("reason"))
    if cause == "revoked":
        return Loss(cause, entry.limits.request.reason if entry.limits.request else None)
    if cause == "max-hold-exceeded" and entry.limits.max_hold is None:
        return Loss("released-elsewhere")
    return Loss(cause)
