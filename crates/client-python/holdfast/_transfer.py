"""Transfers of a hold to another session: the sender's side and the receiver's side. They run on the engine.

The sender ends its hold first: from then on, each check of the guard reports the loss. The cluster may give the lock to
the receiver at any time after that. If the cluster certainly rejects the call, the hold continues.
"""

from __future__ import annotations

import asyncio
from typing import Any, Dict, Optional

from . import _clock, codes
from ._acquire import WaitLimit, adopt
from ._calls import Call, Copies, Parameters, get, millis, path, query
from ._core import Core
from ._entry import Stage
from ._hold import HeldLocks, Hold
from ._request import LockRequest
from ._retry import Delivery
from ._session import SESSION, Session
from .errors import (
    Busy,
    Error,
    InvalidArgument,
    Loss,
    Lost,
    OutcomeUnknown,
    Problem,
    Rejected,
    is_hold_gone,
    is_uncertain,
    is_unclear,
    retry_at,
)


async def transfer(held: HeldLocks, to: str, owner: Optional[str]) -> int:
    """Returns the token of the receiver. After a failure the guard is lost, unless the cluster certainly rejected the call."""
    async with held.holds[0].entry.mode_change:
        return await _transfer(held, to, owner)


async def _transfer(held: HeldLocks, to: str, owner: Optional[str]) -> int:
    hold, session = held.holds[0], held.session
    hold.ensure()
    if session.entries.is_shared(hold.entry):
        raise InvalidArgument("the lock was entered again: release the other guards first")
    hold.entry.stage, hold.is_transferred = Stage.LEAVING, True
    parameters: Parameters = {"session": session.name, "owner": hold.entry.owner, "token": hold.grant.token}
    parameters.update({"to": to, "to_owner": owner})
    call = Call("POST", path("transfers", hold.entry.lock) + query(parameters), copies=Copies.REPEATABLE)
    try:
        delivery = await session.calls.deliver(call)
        if (error := delivery.error) and not await _is_kept(session, delivery):
            raise _reason(delivery, error)
        if error is None:
            token = int(delivery.checked().json(token=int)["token"])
    except BaseException:
        held.leave()
        session.release_in_background([hold.entry])
        raise
    if error is not None:
        _keep(hold)
        raise InvalidArgument(f"session {to} is not open: the receiver opens it first") if isinstance(error, Lost) else error
    held.leave()
    session.entries.remove([hold.entry])
    return token


async def _is_kept(session: Session, delivery: Delivery) -> bool:
    """Whether the cluster certainly rejected the transfer, and the hold continues."""
    error = delivery.error
    if delivery.in_doubt or error is None or is_unclear(error):
        return False
    if isinstance(error, Lost):
        # One of the two sessions has ended; a renewal shows whether it is this one.
        renewal = await session.calls.keep_alive(*session.id, session.lease.deadline - _clock.now())
        try:
            renewal.checked().json(**SESSION)
        except Error:
            return False
        return True
    return not is_hold_gone(error)


def _reason(delivery: Delivery, error: Error) -> Error:
    if is_hold_gone(error) and not delivery.in_doubt:
        return Lost(Loss("released-elsewhere"))
    # An earlier copy of the call may have succeeded, and the receiver's session may have ended since.
    return OutcomeUnknown(str(error)) if delivery.in_doubt and isinstance(error, (Lost, Rejected)) else error


def _keep(hold: Hold) -> None:
    hold.is_transferred = False
    hold.entry.hold(hold.grant.token)
    hold.session.limits_changed.set()


async def receive(core: Core, request: LockRequest) -> HeldLocks:
    """Waits for a hold that another session transfers to the session of this client. Never acquires the lock."""
    lock, limit = request.locks[0], WaitLimit(request.wait)
    session = await core.session_for(request.ttl)
    request = LockRequest((lock,), request.owner, progress_timeout=request.progress_timeout, ttl=request.ttl)
    session.use()
    try:
        while True:
            body = await core.json(get(path("locks", lock)), holders=list)
            token = _token_of(body, session, request.owner)
            if token is not None:
                if session.entries.has_owner(lock, request.owner):
                    raise InvalidArgument(f"this program has a guard of {lock} already")
                held = await adopt(session, request, token)
                if held:
                    return held
                # The hold has ended since the read, so the wait returns at once.
            wait = limit.next_call()
            if wait == 0:
                raise _not_transferred(lock)
            await _changed(session, lock, int(body.get("revision", 0)), wait)
    finally:
        session.unuse()


def _token_of(body: Dict[str, Any], session: Session, owner: Optional[str]) -> Optional[int]:
    for holder in body.get("holders", []):
        if holder.get("session") == session.name and holder.get("owner") == owner:
            return int(holder["token"])
    return None


async def _changed(session: Session, lock: str, since: int, wait: float) -> None:
    """Waits for a change of the lock after a revision. Raises the loss of the session."""
    target = "/v1/watch" + query({"path": f"/locks/{lock}", "since": since, "wait": millis(wait)})
    error = (await session.unless_ending(session.calls.deliver(get(target, wait)))).expecting(revision=int).error
    # Without the changes since this revision, the caller reads the lock again.
    if error and not is_uncertain(error) and error.code != codes.REVISION_COMPACTED:
        raise error
    if error:
        pause = min(retry_at(error) - asyncio.get_running_loop().time(), wait)
        await session.unless_ending(asyncio.sleep(pause))


def _not_transferred(lock: str) -> Busy:
    title = "No transfer of the lock has arrived"
    return Busy(Problem(codes.NOT_YET, title, "", None, True, 423, None, {"lock": lock}))
