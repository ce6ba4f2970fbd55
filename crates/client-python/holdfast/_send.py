"""The calls of a session and their time limits, and calls with a request number."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Deque, Dict, Mapping, Optional, TypeVar
from urllib.parse import quote

from . import _retry
from ._calls import Call, Copies, Parameters, Response, WAIT_MAX, millis, path, query
from ._nodes import Nodes
from ._numbers import numbers
from ._retry import Budget, Delivery, Route, until_retry
from .errors import Error, Lost, OutcomeUnknown, is_uncertain, newest_request, retry_at

#: The minimum time that one node gets for a call, and the maximum for a call that does not wait.
_PER_NODE_MIN = 0.1
_PER_NODE = 6.0
#: The maximum time that one node holds a waiting call. A node that loses power does not close the connection.
_PER_NODE_WAITING = 45.0
#: One node may take this part of the remaining lease for a renewal, so that time is left for other nodes.
_RENEWAL_PART = 4
#: A node may answer a parked keepalive late by this part of the remaining lease.
_PARKED_PART = 6
#: The time in which the client looks for a node that accepts a parked keepalive.
_PARK_WITHIN = 0.05

T = TypeVar("T")


@dataclass(frozen=True)
class Calls:
    """The nodes, and the time in which a call must find one that answers."""

    nodes: Nodes
    request_timeout: float

    def with_timeout(self, request_timeout: float) -> "Calls":
        return Calls(self.nodes, request_timeout)

    async def json(self, call: Call, **fields: type) -> Dict[str, Any]:
        return (await self.send(call)).json(**fields)

    async def send(self, call: Call) -> Response:
        """Sends a call within the request timeout, plus the wait of the call."""
        return (await self.deliver(call)).checked()

    async def confirm(self, call: Call) -> None:
        """Sends a call that ends something."""
        (await self.send(call)).check_end()

    async def deliver(self, call: Call) -> Delivery:
        may_copy = call.copies is Copies.HARMLESS and call.wait == 0
        return await self._deliver_at(call, Route.COPIED if may_copy else Route.ALONE)

    async def deliver_acquire(self, call: Call, is_granted_elsewhere: bool) -> Delivery:
        """Sends an acquire. If a renewal has listed its grant, another node than before gets it first."""
        if call.wait == 0:
            return await self.deliver(call)
        return await self._deliver_at(call, Route.ELSEWHERE if is_granted_elsewhere else Route.QUEUED)

    async def _deliver_at(self, call: Call, route: Route) -> Delivery:
        now = asyncio.get_running_loop().time()
        if call.wait == 0:
            start_until = now + max(self.request_timeout - _PER_NODE_MIN, 0.0)
            budget = Budget(_PER_NODE, start_until, start_until + _PER_NODE_MIN)
        else:
            per_node = min(call.wait + min(_PER_NODE, self.request_timeout), _PER_NODE_WAITING)
            start_until = now + self.request_timeout
            budget = Budget(per_node, start_until, start_until + per_node)
        return await _retry.send(self.nodes, call, budget, route)

    async def repeat_until(
        self, until: float, is_needed: Callable[[], bool], call: Callable[[float], Call]
    ) -> Response:
        """Repeats a waiting call until a node answers it, `until` passes or `is_needed` returns false.

        `call` gets the wait of each copy, and must name the same request each time.
        """
        loop = asyncio.get_running_loop()
        in_doubt = False
        while True:
            wait = whole_millis(max(min(until - loop.time(), WAIT_MAX), 0.0))
            delivery = await self.deliver(call(wait))
            in_doubt |= delivery.in_doubt
            error = delivery.error
            if error is None:
                return delivery.checked()
            if not (is_uncertain(error) and max(loop.time(), retry_at(error)) < until and is_needed()):
                raise settled(error, in_doubt)
            await until_retry(error)

    async def open_session(
        self, session: str, attempt: int, ttl: Optional[float], labels: Mapping[str, str]
    ) -> Delivery:
        """Opens a session, or renews it. `attempt` is the number of the call."""
        parameters: Parameters = {"attempt": attempt, "ttl": millis(ttl) if ttl is not None else None}
        target = path("sessions", session) + query(parameters) + label_query(labels)
        return await self.deliver(Call("PUT", target, copies=Copies.HARMLESS))

    async def close_session(self, session: str, incarnation: int) -> None:
        """Closes a session. A late copy of the call closes no later session of the same name."""
        target = path("sessions", session) + query({"incarnation": incarnation})
        await self.confirm(Call("DELETE", target, copies=Copies.HARMLESS))

    async def keep_alive(self, session: str, incarnation: int, left: float) -> Delivery:
        """Renews a session, and no later one of its name, whose lease has this much time left."""
        until = asyncio.get_running_loop().time() + left
        per_node = min(max(left / _RENEWAL_PART, _PER_NODE_MIN), _PER_NODE)
        target = path("sessions", session) + "/keepalive" + query({"incarnation": incarnation})
        call = Call("POST", target, copies=Copies.HARMLESS)
        return await _retry.send(self.nodes, call, Budget(per_node, until - _PER_NODE_MIN, until), Route.COPIED)

    async def park_keep_alive(
        self, session: str, incarnation: int, since: Optional[int], wait: float, left: float
    ) -> Delivery:
        """Renews a session with a call that one node holds for `wait`, or until an event of the session's locks.

        Fails soon if no node accepts the call.
        """
        parameters = query({"wait": millis(wait), "since": since, "incarnation": incarnation})
        target = path("sessions", session) + "/keepalive" + parameters
        per_node = wait + min(max(left / _PARKED_PART, _PER_NODE_MIN), _PER_NODE)
        start_until = asyncio.get_running_loop().time() + _PARK_WITHIN
        call = Call("POST", target, copies=Copies.HARMLESS)
        return await _retry.send(self.nodes, call, Budget(per_node, start_until, start_until + per_node), Route.PARKED)


def label_query(labels: Mapping[str, str]) -> str:
    """`&label.host=web1`"""
    return "".join(f"&label.{quote(key, safe='')}={quote(value, safe='')}" for key, value in labels.items())


def whole_millis(duration: float) -> float:
    """Rounds to whole milliseconds, the unit of the API."""
    return round(duration, 3)


def settled(error: Error, in_doubt: bool) -> Error:
    """The error of a call of which an earlier copy may have been executed, although this copy's number is over."""
    if in_doubt and newest_request(error) is not None:
        return OutcomeUnknown("the session no longer remembers the first answer, so read the state")
    return error


def answer_of_numbered(delivery: Delivery) -> Response:
    """The answer to a call with a request number, or raises its error.

    The session may have ended after it executed a copy whose answer was lost.
    """
    if isinstance(delivery.error, Lost) and delivery.in_doubt:
        raise OutcomeUnknown(f"{delivery.error}, and the first answer was lost, so read the state")
    if delivery.error:
        raise settled(delivery.error, delivery.in_doubt)
    return delivery.checked()


class NumberedCalls:
    """The calls of one session that the cluster executes once.

    A session remembers the answers to its last 64 calls, and rejects new calls up to the largest forgotten number. The
    client therefore limits how far its calls run ahead of the oldest one in progress.
    """

    _CALLS_MAX = 32

    def __init__(self) -> None:
        #: The calls from the oldest one in progress: whether each is over.
        self._started: Deque[Dict[str, bool]] = deque()
        self._room = asyncio.Event()

    async def send(self, send: Callable[[int], Awaitable[T]]) -> T:
        """Sends a call with a new number. If the number is over, sends it once more with a larger one."""
        try:
            return await self._send_once(send, 0)
        except Error as error:
            newest = newest_request(error)
            if newest is None:
                raise
        return await self._send_once(send, newest)

    async def _send_once(self, send: Callable[[int], Awaitable[T]], after: int) -> T:
        while len(self._started) >= self._CALLS_MAX:
            self._room.clear()
            await self._room.wait()
        entry = {"over": False}
        self._started.append(entry)
        try:
            return await send(numbers.after(after))
        finally:
            entry["over"] = True
            while self._started and self._started[0]["over"]:
                self._started.popleft()
            self._room.set()
