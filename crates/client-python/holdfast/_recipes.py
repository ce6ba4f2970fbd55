"""The calls of latches, barriers, counters, elections and locks in general. They run on the engine."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from . import codes
from ._calls import Call, Copies, Parameters, Response, get, millis, path, query
from ._core import Core
from ._hold import GRANT, Hold
from ._numbers import numbers, random_name
from ._session import FORKED, Session
from .errors import Busy, Loss, Lost, Rejected, is_hold_gone, newest_attempt, newest_request


@dataclass(frozen=True)
class Count:
    """The state of a counter: its value, and the revision of its last change."""

    value: int
    version: int


async def change_counter(core: Core, name: str, method: str, parameters: Parameters) -> Count:
    return _count(await core.send_once(Call(method, path("counters", name) + query(parameters))))


async def read_counter(core: Core, name: str) -> Count:
    return _count(await core.calls.send(get(path("counters", name))))


def _count(answer: Response) -> Count:
    body = answer.json(value=int, version=int)
    return Count(body["value"], body["version"])


async def create_latch(core: Core, name: str, count: int) -> int:
    """Returns the count that is left."""
    return _left(await core.send_once(Call("PUT", path("latches", name) + query({"count": count}))))


async def count_down(core: Core, name: str, key: str) -> int:
    """Returns the count that was left after the first call for the key."""
    return _left(await core.send_once(Call("POST", path("latches", name) + query({"key": key}))))


def _left(answer: Response) -> int:
    return int(answer.json(left=int)["left"])


async def wait_for_latch(core: Core, name: str, wait: float) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + wait

    def call(left: float) -> Call:
        return get(path("latches", name) + query({"wait": millis(left)}), left)

    while True:
        try:
            _left(await core.unless_closing(core.calls.repeat_until(until, lambda: True, call)))
            return
        except Busy:
            if loop.time() >= until:
                raise


async def delete(core: Core, kind: str, name: str) -> None:
    (await core.send_once(Call("DELETE", path(kind, name)))).check_end()


@dataclass(frozen=True)
class Tripped:
    """The round of a barrier that opened."""

    #: The order of arrival, from 0.
    index: int
    parties: int
    generation: int


class Arrival:
    """A party at a barrier, as a separate owner, so that several arrivals of one program are separate parties."""

    def __init__(self, core: Core, session: Session, kind: str, name: str) -> None:
        self._core, self._session = core, session
        self._path = path(kind, name)
        self._party: Parameters = {"session": session.name, "owner": random_name("a")}
        self._request = numbers.after()
        self._round: Optional[Tripped] = None
        session.use()

    async def arrive(self, parties: int, wait: float) -> None:
        """Arrives and waits for the other parties. A failure takes the arrival back."""
        until = asyncio.get_running_loop().time() + wait
        try:
            try:
                body = await self._repeat(parties, until)
            except Rejected as error:
                newest = newest_request(error)
                if newest is None:
                    raise
                self._request = numbers.after(newest)
                body = await self._repeat(parties, until)
        except BaseException as error:
            # The cluster has no arrival after a certain answer, or after the end of the session.
            if not isinstance(error, (Busy, Rejected)) and self._session.may_release():
                self._session.start_release(self._give_up())
            else:
                self._session.unuse()
            raise
        self._round = Tripped(body["index"], body["parties"], body["generation"])

    @property
    def round(self) -> Tripped:
        assert self._round is not None
        return self._round

    async def leave(self, wait: float) -> None:
        """Leaves a double barrier, and waits until all parties have left."""
        if self._session.is_of_parent:
            raise Lost(FORKED)
        loop = asyncio.get_running_loop()
        until = loop.time() + wait

        def call(left: float) -> Call:
            parameters: Parameters = {**self._party, "generation": self.round.generation, "wait": millis(left) if left else None}
            return Call("DELETE", self._path + query(parameters), wait=left, copies=Copies.HARMLESS)

        try:
            while True:
                try:
                    left = await self._session.unless_ending(self._core.calls.repeat_until(until, self._is_alive, call))
                    return left.check_end()
                except Busy:
                    if loop.time() >= until:
                        raise
        except BaseException as error:
            if not isinstance(error, (Busy, Rejected)) and self._session.may_release():
                self._session.use()
                self._session.start_release(self._give_up())
            raise
        finally:
            self._session.unuse()

    def done(self) -> None:
        """The party of a barrier has nothing to leave."""
        self._session.unuse()

    def leave_in_background(self) -> None:
        """For a caller that is gone."""
        self._session.start_release(self._give_up())

    async def _repeat(self, parties: int, until: float) -> Dict[str, Any]:
        def call(left: float) -> Call:
            parameters: Parameters = {**self._party, "parties": parties, "request": self._request, "wait": millis(left)}
            return Call("PUT", self._path + query(parameters), wait=left, copies=Copies.HARMLESS)

        arrived = await self._session.unless_ending(self._core.calls.repeat_until(until, self._is_alive, call))
        return arrived.json(index=int, parties=int, generation=int)

    def _is_alive(self) -> bool:
        return self._session.loss() is None

    async def _give_up(self) -> None:
        # The number withdraws an arrival that waits or has not arrived. The other call leaves a place inside, which no
        # other arrival has: the owner is unique.
        names: List[Parameters] = [{"request": self._request}, {"generation": self._round.generation} if self._round else {}]
        try:
            for name in names:
                call = Call("DELETE", self._path + query({**self._party, **name}), copies=Copies.HARMLESS)
                await self._session.until_certain(lambda: self._core.calls.confirm(call))
        finally:
            self._session.unuse()


async def arrive(core: Core, kind: str, name: str, parties: int, wait: float) -> Arrival:
    """Arrives at a barrier. The party of a double barrier must leave."""
    session = await core.session_for()
    arrival = Arrival(core, session, kind, name)
    with session.pending():
        await arrival.arrive(parties, wait)
    if kind == "barriers":
        arrival.done()
    return arrival


async def set_value(hold: Hold, value: str) -> None:
    """Replaces the value of the hold, with the same token. If the hold was lost, never acquires the lock again."""
    hold.ensure()
    session, attempt, after = hold.session, hold.entry.attempt, hold.entry.attempt
    for is_last in (False, True):
        call = hold.request.change_call(session.id, attempt, numbers.after(after), {"value": value}, 0.0)
        delivery = await session.deliver(call)
        if error := delivery.error:
            newest = newest_attempt(error)
            if newest is not None and not is_last:
                after = newest
                continue
            if is_hold_gone(error) or isinstance(error, Busy):
                raise hold.lose(Loss("released-elsewhere"))
            raise error
        body = delivery.checked().json(**GRANT)
        if body["token"] != hold.grant.token and not hold.entry.follow_upgrade(body):
            raise hold.lose(Loss("released-elsewhere"))
        return session.acknowledge(delivery.counted_from(body), body.get("expires_in_ms") or 0)


async def lock_state(core: Core, lock: str) -> Dict[str, Any]:
    return await core.json(get(path("locks", lock)), holders=list)


async def force_release(core: Core, lock: str, reason: str, token: Optional[int]) -> int:
    """Returns the number of holds that ended. With a token, a late copy of the call affects no later holder."""
    target = path("force-releases", lock) + query({"reason": reason, "token": token})
    body = await core.json(Call("POST", target, copies=_copies_for(token)), ended=int)
    return int(body["ended"])


async def hold_durably(core: Core, lock: str, owner: str, reason: str, wait: float) -> int:
    """Returns the token. A late copy of the call acquires nothing after the release: its attempt is then over."""
    loop = asyncio.get_running_loop()
    until, after = loop.time() + wait, 0
    while True:
        parameters: Parameters = {"hold": "durable", "owner": owner, "reason": reason, "attempt": numbers.after(after)}

        def call(left: float) -> Call:
            target = path("locks", lock) + query({**parameters, "wait": millis(left) if left else None})
            return Call("PUT", target, wait=left, copies=Copies.HARMLESS)

        try:
            # The copies of one attempt share the place in the queue.
            answer = await core.unless_closing(core.calls.repeat_until(until, lambda: True, call))
            return int(answer.json(token=int)["token"])
        except Busy as busy:
            # The attempt ended with its wait, which one call may shorten.
            if busy.code != codes.WAIT_TIMEOUT or loop.time() >= until:
                raise
        except Rejected as error:
            newest = newest_attempt(error)
            if newest is None or (after and loop.time() >= until):
                raise
            # The wait of an earlier copy has ended, or another program of the owner has a clock that is ahead.
            after = newest


async def release_durable(core: Core, lock: str, owner: str, token: int) -> None:
    target = path("locks", lock) + query({"hold": "durable", "owner": owner, "token": token})
    await core.calls.confirm(Call("DELETE", target, copies=Copies.HARMLESS))


async def request_release(
    core: Core, lock: str, reason: Optional[str], deadline: float, revoke: bool, token: Optional[int]
) -> int:
    """Returns the number of holders that got the request."""
    parameters: Parameters = {
        "reason": reason,
        "deadline": millis(deadline),
        "revoke": True if revoke else None,
        "token": token,
    }
    target = path("release-requests", lock) + query(parameters)
    body = await core.json(Call("POST", target, copies=_copies_for(token)), asked=int)
    return int(body["asked"])


def _copies_for(token: Optional[int]) -> Copies:
    """Without a token, a repeated call would affect a holder that came after the first one."""
    return Copies.NEVER if token is None else Copies.HARMLESS
