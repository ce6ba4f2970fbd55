"""The nodes of one cluster: which one a call tries first, which ones rest after a failure, whether one still answers.

Every answer names its node and the leader, and calls try the leader first: another node would forward them. A node that
gave no answer rests for seconds: calls try the other nodes first. The first node of a process is random, so one frozen
node does not delay all processes alike.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Union

from . import _http
from ._calls import Call, Foreign, MayBeDone, NotDone, OldToken, Outcome, Rejection, Response, classify
from ._token import AccessToken
from ._within import within
from .errors import is_unauthenticated

#: Another node gets a copy of a call after this time without an answer.
COPY_AFTER = 0.3
#: The same while most calls take that long: the cluster is slow, and copies would make it slower.
_COPY_AFTER_OF_SLOW_CLUSTER = 1.0
#: An answer without a copy earns 1 credit, a copy costs this many. Slow clusters thus get one copy for ten calls.
_COPY_COST = 10
_CREDIT_MAX = 100
#: A node rests this long after its first failure; each further failure in sequence doubles the time.
_REST_MIN = 1.0
_REST_MAX = 10.0
#: A node that holds a call is pinged after this time, then after twice the time, up to `_PING_MAX`.
_PING_FIRST = 0.4
_PING_MAX = 15.0
_PING_TIMEOUT = 0.6
#: A node that answered within this time needs no ping before a call that may have only one copy.
_ALIVE_FOR = 1.0
#: A node answers this call without the cluster and without a credential.
PING = "/livez"


@dataclass
class NodeState:
    """What this client knows of one node. Times are those of the event loop."""

    #: The id behind this address, from its last answer; 0 before.
    id: int = 0
    answered_at: float = float("-inf")
    rests_until: float = float("-inf")
    #: Consecutive calls without an answer.
    failures: int = 0
    #: The calls that wait at this node.
    waiting: int = 0

    def answered(self, now: float) -> None:
        self.answered_at, self.rests_until, self.failures = now, float("-inf"), 0

    def rest(self, now: float) -> None:
        """Records that the node gave no answer, or a later one than another node."""
        self.rests_until = now + min(_REST_MIN * 2 ** min(self.failures, 4), _REST_MAX)
        self.failures += 1

    def rest_until(self, until: float) -> None:
        """Records that the node refused a call until then. An answer ends the rest."""
        self.rests_until = max(self.rests_until, until)


def order(states: Sequence[NodeState], preferred: int, leader: int, now: float) -> List[int]:
    """The nodes in the order in which a call tries them: the leader first, those that rest last.

    While the address of the leader is unknown, addresses without an answer come first, because the leader is one of them.
    """
    count = len(states)
    turns = [(preferred + turn) % count for turn in range(count)]
    wanted = leader if any(state.id == leader for state in states) else 0
    return sorted(turns, key=lambda n: (now < states[n].rests_until, leader != 0 and states[n].id != wanted))


def order_of_idle(states: Sequence[NodeState], preferred: int, leader: int, now: float) -> List[int]:
    """The nodes with the fewest waiting calls first.

    A keepalive that is parked there delivers a grant although the node of the acquire is frozen.
    """
    nodes = order(states, preferred, leader, now)
    return sorted(nodes, key=lambda n: (now < states[n].rests_until, states[n].waiting, n == preferred))


class Nodes:
    """The nodes of one cluster. Used on the event loop of the engine only."""

    def __init__(self, nodes: Sequence[_http.Node], token: Optional[AccessToken], first: int) -> None:
        self._http = list(nodes)
        self.states = [NodeState() for _ in nodes]
        self._token = token
        self._preferred = first % len(nodes)
        self._leader = 0
        self._credit = _CREDIT_MAX
        #: Whether a node has accepted a call, and with it the access token.
        self._accepted = False
        self.is_closed = False

    def __len__(self) -> int:
        return len(self.states)

    def base(self, node: int) -> str:
        return self._http[node].base

    def order(self) -> List[int]:
        return order(self.states, self._preferred, self._leader, _now())

    def order_of_idle(self) -> List[int]:
        return order_of_idle(self.states, self._preferred, self._leader, _now())

    def prefer(self, node: int) -> None:
        self._preferred = node

    def rest(self, node: int) -> None:
        self.states[node].rest(_now())

    def is_first_alive(self) -> bool:
        """Whether the first node of the order has just answered another call."""
        return self.states[self.order()[0]].answered_at > _now() - _ALIVE_FOR

    def copy_after(self) -> float:
        """How long a call waits for an answer before another node gets a copy."""
        return COPY_AFTER if self._credit >= _COPY_COST else _COPY_AFTER_OF_SLOW_CLUSTER

    def copied(self) -> None:
        self._credit = max(self._credit - _COPY_COST, 0)

    def answered_alone(self) -> None:
        self._credit = min(self._credit + 1, _CREDIT_MAX)

    def may_get_token(self, error: BaseException) -> bool:
        """Whether a node rejected a token that was accepted before, and whose file may have another one now."""
        if not (is_unauthenticated(error) and self._accepted and self._token and self._token.may_change):
            return False
        self._token.read_again()
        return True

    async def attempt(self, call: Call, node: int, timeout: float) -> Outcome:
        """Sends a call to one node."""
        http, state = self._http[node], self.states[node]
        try:
            response = await http.send(call.method, call.target, self._headers(call), call.body, max(timeout, 0.001))
        except _http.SendError as error:
            state.rest(_now())
            http.close()
            reason = f"{http.base}: {error}"
            return MayBeDone(reason) if error.may_be_done else NotDone(reason)
        return self._received(node, call, response)

    async def attempt_while_alive(self, call: Call, node: int, timeout: float, pings: float) -> Outcome:
        """Sends a call that the node may hold for long. Gives up when the node does not answer one of the first pings."""
        state = self.states[node]
        state.waiting += 1
        attempt = asyncio.ensure_future(self.attempt(call, node, timeout))
        silence = asyncio.ensure_future(self.silence(node, pings))
        try:
            await asyncio.wait({attempt, silence}, return_when=asyncio.FIRST_COMPLETED)
            if attempt.done():
                return attempt.result()
            return MayBeDone(f"{self.base(node)}: the node stopped answering")
        finally:
            attempt.cancel()
            silence.cancel()
            state.waiting -= 1

    async def silence(self, node: int, pings: float = float("inf")) -> None:
        """Returns when a node does not answer one of the first pings; never, if there is no other node."""
        interval, sent = _PING_FIRST, 0
        while sent < pings and len(self) > 1:
            await asyncio.sleep(interval)
            if self.states[node].answered_at < _now() - interval and not await self._is_alive(node):
                return self.rest(node)
            interval, sent = min(interval * 2, _PING_MAX), sent + 1
        await asyncio.get_running_loop().create_future()

    async def open_stream(self, target: str, node: int, last_event: Optional[int], timeout: float) -> Union[_http.Stream, Outcome]:
        """Opens a stream of events at one node."""
        headers = {"accept": "text/event-stream", **self._headers(Call("GET", target))}
        if last_event is not None:
            headers["last-event-id"] = str(last_event)
        http = self._http[node]
        silence = asyncio.ensure_future(self.silence(node))
        try:
            stream = await within(timeout, http.open("GET", target, headers, b""), _http.Stream.close, silence)
        except (_http.SendError, asyncio.TimeoutError) as error:
            if not silence.done():
                self.rest(node)
            return NotDone(f"{http.base}: {str(error) or 'no answer in time'}")
        finally:
            silence.cancel()
        if stream.head.status == 200:
            # The answer is judged without its body, which is the stream.
            outcome = self._received(node, Call("GET", target), stream.head)
            if isinstance(outcome, Foreign):
                stream.close()
                return outcome
            self.prefer(node)
            return stream
        try:
            body = await within(timeout, stream.body())
        except (OSError, EOFError, ValueError, asyncio.TimeoutError):
            body = b""
        finally:
            stream.close()
        return self._received(node, Call("GET", target), Response(stream.head.status, stream.head.headers, body))

    def close(self) -> None:
        self.is_closed = True
        for node in self._http:
            node.close()

    def _received(self, node: int, call: Call, response: Response) -> Outcome:
        """Learns from an answer which node sent it, and which node leads."""
        state, outcome = self.states[node], classify(self.base(node), response)
        if isinstance(outcome, Foreign):
            state.rest(_now())
            return outcome
        state.answered(_now())
        if (number := _number(response, "holdfast-node")) is not None:
            state.id, self._leader = number, _number(response, "holdfast-leader") or 0
        if isinstance(outcome, Response):
            self._accepted |= call.target != PING
        elif isinstance(outcome, Rejection) and self.may_get_token(outcome.error):
            return OldToken(outcome.error)
        return outcome

    async def _is_alive(self, node: int) -> bool:
        """Whether a node answers a ping. Any answer counts."""
        try:
            await self._http[node].send("GET", PING, {}, b"", _PING_TIMEOUT)
        except _http.SendError:
            return False
        self.states[node].answered(_now())
        return True

    def _headers(self, call: Call) -> Dict[str, str]:
        headers = dict(call.headers)
        if self._token and (value := self._token.header()):
            headers["authorization"] = value
        return headers


def _now() -> float:
    return asyncio.get_running_loop().time()


def _number(response: Response, name: str) -> Optional[int]:
    text = response.headers.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else None
