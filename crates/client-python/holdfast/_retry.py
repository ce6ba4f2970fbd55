"""The retry loop of every call: it tries the nodes until one answers or the call's time is over.

A call whose copies are harmless goes to the next node after a third of a second without an answer; the first answer
counts. Any other call is at one node at a time. The result is `OutcomeUnknown` only if no later answer settles the call.
Bounds: one request in flight at each node for each call.
"""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass, replace
from typing import Any, Dict, Iterable, List, Mapping, Optional, Set, Tuple

from . import _clock
from ._calls import Call, Copies, Foreign, MayBeDone, NotDone, OldToken, Outcome, Rejection, Response, RetryAfter, get
from ._nodes import COPY_AFTER, PING, Nodes
from .errors import Error, OutcomeUnknown, Unavailable, UnexpectedResponse, retry_at

#: The first and the maximum pause between two rounds over all nodes.
_PAUSE_MIN = 0.02
_PAUSE_MAX = 0.5
#: The maximum time of the search for a node that answers, before a call that may have only one copy.
_SEARCH_TIMEOUT = 1.0


class Route(enum.Enum):
    """The nodes that get the requests of a call, and when."""

    #: The answer is due at once and copies are harmless, so the next node gets a copy if this one is late.
    COPIED = 1
    #: One node has the call as long as it answers pings.
    ALONE = 2
    #: One node has the acquire if it answers the first ping. From then on, the keepalive of the session delivers the
    #: grant if the node freezes.
    QUEUED = 3
    #: As `QUEUED`, first at a node where no call of this client waits.
    ELSEWHERE = 4
    #: One node holds the call, a keepalive, without pings and at a node where no call of this client waits.
    PARKED = 5


@dataclass(frozen=True)
class Budget:
    """The time limits of a call, on the clock of the event loop."""

    #: The maximum time of one request.
    per_node: float
    #: No request starts after this.
    start_until: float
    #: No request lasts longer.
    until: float


@dataclass(frozen=True)
class Delivery:
    """The outcome of a call that a node answered, or the error."""

    response: Optional[Response]
    error: Optional[Error]
    #: When the answered request was sent, on the clock of deadlines.
    sent: float
    #: Whether a request without an answer may still take effect later.
    in_doubt: bool

    def counted_from(self, body: Mapping[str, Any]) -> float:
        """The moment from which the times in the answer count: the cluster cannot have counted them from earlier."""
        return float(self.sent + body.get("waited_ms", 0) / 1000)

    def expecting(self, **fields: type) -> Delivery:
        """The same, or an error if the body of the answer lacks a field of this type."""
        try:
            if self.response:
                self.response.json(**fields)
            return self
        except UnexpectedResponse as error:
            return replace(self, response=None, error=error, in_doubt=True)

    def checked(self) -> Response:
        """The answer, or raises the error."""
        if self.response is None:
            raise self.error or Unavailable("no node was tried")
        return self.response


async def send(nodes: Nodes, call: Call, budget: Budget, route: Route) -> Delivery:
    """Sends a call to the nodes until one answers."""
    if call.copies is not Copies.HARMLESS and len(nodes) > 1 and not nodes.is_first_alive():
        start_until = min(budget.start_until, _now() + _SEARCH_TIMEOUT)
        await _Rounds(nodes, get(PING), Budget(_SEARCH_TIMEOUT, start_until, start_until), Route.COPIED).run()
    return await _Rounds(nodes, call, budget, route).run()


async def until_retry(error: Error) -> None:
    """Waits until the call that failed may be sent again."""
    await asyncio.sleep(retry_at(error) - _now())


class _Rounds:
    """The rounds of one call over the nodes."""

    def __init__(self, nodes: Nodes, call: Call, budget: Budget, route: Route) -> None:
        self._nodes, self._call, self._budget, self._route = nodes, call, budget, route
        is_idle_first = route in (Route.ELSEWHERE, Route.PARKED)
        #: The nodes without a request in this round.
        self._untried = nodes.order_of_idle() if is_idle_first else nodes.order()
        #: The node and the time of sending of each request without an answer.
        self._in_flight: Dict["asyncio.Task[Outcome]", Tuple[int, float]] = {}
        self._is_started = False
        #: No request starts before.
        self._start_at = _now()
        #: No request at this node starts before.
        self._not_before = [0.0] * len(nodes)
        self._pause = _PAUSE_MIN
        #: The last failure of each node.
        self._failures: List[Optional[str]] = [None] * len(nodes)
        #: The nodes whose last answer is from another server.
        self._foreign: Set[int] = set()
        #: Whether a request failed after the node may have received it.
        self._lost_answer = False
        #: The last rejection of an access token whose file may have another one.
        self._old_token: Optional[Error] = None

    async def run(self) -> Delivery:
        try:
            while True:
                if self._may_start() and _now() >= self._next_start():
                    self._start()
                finished = await self._next_finished()
                if finished is None:
                    if self._in_flight or self._may_start():
                        continue
                    return self._delivery(None, self._error(), 0.0)
                node, sent, outcome = finished
                if isinstance(outcome, Response):
                    self._won(node)
                    return self._delivery(outcome, None, sent)
                if isinstance(outcome, Rejection):
                    self._won(node)
                    return self._delivery(None, outcome.error, sent)
                self._unsuccessful(node, outcome)
                is_never_repeated = bool(self._foreign) and self._call.copies is Copies.NEVER
                if is_never_repeated or len(self._foreign) == len(self._nodes):
                    return self._delivery(None, UnexpectedResponse(self._reason()), sent)
        finally:
            for task in self._in_flight:
                task.cancel()

    def _delivery(self, response: Optional[Response], error: Optional[Error], sent: float) -> Delivery:
        return Delivery(response, error, sent, self._lost_answer or bool(self._in_flight))

    def _unsuccessful(self, node: int, outcome: Outcome) -> None:
        if isinstance(outcome, NotDone):
            self._refused(node, outcome.retry_after)
            self._failed(node, outcome.reason)
        elif isinstance(outcome, OldToken):
            self._failed(node, str(outcome.error))
            self._old_token = outcome.error
        elif isinstance(outcome, Foreign):
            self._lost_answer = True
            self._failed(node, outcome.reason)
            self._foreign.add(node)
        elif isinstance(outcome, MayBeDone):
            self._lost_answer = True
            self._refused(node, outcome.retry_after)
            # At the end of the time, an earlier answer of the node explains more than a request that had no time left.
            is_last = _now() >= self._budget.start_until
            self._failed(node, (self._failures[node] if is_last else None) or outcome.reason)

    def _refused(self, node: int, retry_after: RetryAfter) -> None:
        """Records when the node may get the call again. Until then it comes last in each call."""
        retry_after.refuse(self._not_before, node, _now())
        for state, until in zip(self._nodes.states, self._not_before):
            state.rest_until(until)

    def _retry_at(self, nodes: Iterable[int]) -> float:
        """When the first of these nodes may get the call again."""
        return min((self._not_before[node] for node in nodes), default=0.0)

    def _next_start(self) -> float:
        return max(self._start_at, self._retry_at(self._untried))

    def _may_start(self) -> bool:
        has_time = not self._is_started or max(_now(), self._retry_at(self._untried)) < self._budget.start_until
        may_copy = not self._in_flight or self._route is Route.COPIED
        may_repeat = not self._lost_answer or self._call.copies is not Copies.NEVER
        return has_time and may_copy and may_repeat and bool(self._untried)

    def _start(self) -> None:
        """Sends the request to the next node that may get it."""
        now = _now()
        node = next(node for node in self._untried if self._not_before[node] <= now)
        self._untried.remove(node)
        if self._in_flight:
            self._nodes.copied()
        timeout = min(self._budget.per_node, self._budget.until - _now())
        if self._route in (Route.COPIED, Route.PARKED):
            attempt = self._nodes.attempt(self._call, node, timeout)
        else:
            pings = float("inf") if self._route is Route.ALONE else 1
            attempt = self._nodes.attempt_while_alive(self._call, node, timeout, pings)
        self._in_flight[asyncio.ensure_future(attempt)] = (node, _clock.now())
        self._is_started = True
        self._start_at = _now() + self._nodes.copy_after()

    async def _next_finished(self) -> Optional[Tuple[int, float, Outcome]]:
        """The next request that has an outcome, or `None` when the next request may start."""
        pause = max(self._next_start() - _now(), 0.0) if self._may_start() else None
        if not self._in_flight:
            if pause is not None:
                await asyncio.sleep(pause)
            return None
        done, _ = await asyncio.wait(self._in_flight, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            node, sent = self._in_flight.pop(task)
            return node, sent, task.result()
        return None

    def _failed(self, node: int, reason: str) -> None:
        """Schedules the next request after one that failed."""
        self._failures[node] = reason
        self._foreign.discard(node)
        self._start_at = _now()
        if not self._untried or self._retry_at(self._untried) > self._start_at:
            waits = {other for other, _ in self._in_flight.values()}
            self._untried = [other for other in self._nodes.order() if other not in waits]
            self._start_at = min(self._start_at + self._pause, self._budget.start_until)
            self._pause = min(self._pause * 2, _PAUSE_MAX)

    def _won(self, node: int) -> None:
        """Prefers the node that answered to those that have not."""
        for late, sent in self._in_flight.values():
            if _clock.now() - sent >= COPY_AFTER:
                self._nodes.rest(late)
        if not self._in_flight:
            self._nodes.answered_alone()
        if self._route is not Route.PARKED:
            self._nodes.prefer(node)

    def _reason(self) -> str:
        return "; ".join(filter(None, self._failures)) or "no node was tried"

    def _error(self) -> Error:
        """The error of a call without an answer."""
        reason = self._reason()
        at = min(self._not_before)
        # A read changes nothing, so a lost answer leaves no doubt.
        if self._lost_answer and self._call.method != "GET":
            return OutcomeUnknown(reason, at)
        return self._old_token or Unavailable(reason, at)


def _now() -> float:
    return asyncio.get_running_loop().time()
